# Code that is compiled once for each instruction set, and chosen at run time.
#
#   millrace_isa_objects(TARGET [SUFFIX name] [REFERENCE] SOURCES file... [INCLUDES dir...])
#
# adds to TARGET one object library per instruction set; with REFERENCE also one of plain scalar code. In each, MILLRACE_ISA names the inline namespace that keeps
# the copies apart (so that the linker cannot take one's function for another's), and MILLRACE_ISA_LEVEL orders them.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(MILLRACE_ISAS baseline avx2 avx512)
else()
  set(MILLRACE_ISAS baseline)
endif()
set(MILLRACE_ISA_LEVEL_reference -1)
set(MILLRACE_ISA_LEVEL_baseline 0)
set(MILLRACE_ISA_LEVEL_avx2 1)
set(MILLRACE_ISA_LEVEL_avx512 2)
set(MILLRACE_ISA_FLAGS_reference "")
set(MILLRACE_ISA_FLAGS_baseline "")
set(MILLRACE_ISA_FLAGS_avx2 -march=x86-64-v3)
set(MILLRACE_ISA_FLAGS_avx512 -march=x86-64-v4 -mprefer-vector-width=512)

function(millrace_isa_objects target)
  cmake_parse_arguments(ARG "REFERENCE" "SUFFIX" "SOURCES;INCLUDES" ${ARGN})
  set(isas ${MILLRACE_ISAS})
  if(ARG_REFERENCE)
    list(APPEND isas reference)
  endif()
  foreach(isa IN LISTS isas)
    set(objects ${target}_${ARG_SUFFIX}${isa})
    add_library(${objects} OBJECT ${ARG_SOURCES})
    # Optimised in every configuration: an unoptimised copy would emit shared inline functions, and run for minutes.
    target_compile_options(${objects} PRIVATE -O3 -fno-semantic-interposition ${MILLRACE_ISA_FLAGS_${isa}})
    # g++ 12 takes the deliberately undefined operand inside its own AVX-512 intrinsics for a fault of the caller.
    target_compile_options(${objects} PRIVATE
      $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized -Wno-uninitialized>)
    target_compile_definitions(${objects} PRIVATE MILLRACE_ISA=isa_${isa}
      MILLRACE_ISA_LEVEL=${MILLRACE_ISA_LEVEL_${isa}})
    target_include_directories(${objects} PRIVATE ${ARG_INCLUDES})
    target_link_libraries(${objects} PRIVATE millrace_envs millrace_compile)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${objects}>)
  endforeach()
endfunction()
