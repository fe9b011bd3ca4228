# cmake -DCOMPILER= -DSOURCE= -DINCLUDE= -DCASE= -DEXPECTED= -P check.cmake
#
# Compiles SOURCE with -DCASE and wants an error whose text has EXPECTED; with an empty EXPECTED it must compile.
execute_process(COMMAND ${COMPILER} -std=c++20 -fsyntax-only -Wno-psabi -I${INCLUDE} -DCASE=${CASE} ${SOURCE}
  RESULT_VARIABLE result ERROR_VARIABLE text)
if(EXPECTED STREQUAL "")
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "a correct environment does not compile:\n${text}")
  endif()
elseif(result EQUAL 0)
  message(FATAL_ERROR "case ${CASE} compiles, and should not")
else()
  string(FIND "${text}" "${EXPECTED}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "case ${CASE} fails without saying \"${EXPECTED}\":\n${text}")
  endif()
endif()
