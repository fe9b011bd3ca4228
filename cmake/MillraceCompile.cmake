# Warnings, sanitizers and floating-point rules that all of Millrace's own code is compiled with.
#
# Contraction is off everywhere: a fused multiply-add is written where it is meant (envs/numerics.hpp), so that
# trajectories have the same bits with every compiler, instruction set and device.
add_library(millrace_compile INTERFACE)
target_compile_options(millrace_compile INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor
    -Wno-psabi -ffp-contract=off -fno-math-errno -fno-trapping-math>)
# g++ 12 warns falsely about "literal" + std::string (its bug 105329).
target_compile_options(millrace_compile INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict>)
if(MILLRACE_WARNINGS_AS_ERRORS)
  target_compile_options(millrace_compile INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()
if(CMAKE_BUILD_TYPE STREQUAL "Debug")
  target_compile_definitions(millrace_compile INTERFACE MILLRACE_DEBUG=1)
endif()
if(MILLRACE_SANITIZE)
  target_compile_options(millrace_compile INTERFACE -fsanitize=${MILLRACE_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all -g)
  target_link_options(millrace_compile INTERFACE -fsanitize=${MILLRACE_SANITIZE})
endif()
