# millrace_add_environments(TARGET NAME header:Type ...)
#
# Compiles each environment for every instruction set, and generates `void millrace::register_NAME()` that registers
# them all.
function(millrace_add_environments target name)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${name})
  set(isas reference ${MILLRACE_ISAS})
  set(declarations "")
  set(registrations "")
  set(includes "")
  set(sources "")
  foreach(environment IN LISTS ARGN)
    string(REPLACE ":" ";" parts ${environment})
    list(GET parts 0 header)
    list(GET parts 1 type)
    string(APPEND includes "#include \"${header}\"\n")
    set(source ${folder}/${type}_kernels.cpp)
    file(CONFIGURE OUTPUT ${source} CONTENT "// Generated: ${type} on one instruction set.
#include \"${header}\"

#include \"kernels/rollout.hpp\"

namespace millrace {
static_assert(check_environment<${type}>());
inline namespace MILLRACE_ISA {
extern const EnvironmentKernels k${type}Kernels;
const EnvironmentKernels k${type}Kernels =
    make_kernels<${type}, MILLRACE_ISA_LEVEL >= 0>(static_cast<Isa>(MILLRACE_ISA_LEVEL));
}  // namespace MILLRACE_ISA
}  // namespace millrace
" @ONLY)
    list(APPEND sources ${source})
    set(tables "")
    foreach(isa IN LISTS isas)
      string(APPEND declarations "namespace isa_${isa} { extern const EnvironmentKernels k${type}Kernels; }\n")
      list(APPEND tables "&isa_${isa}::k${type}Kernels")
    endforeach()
    list(JOIN tables ", " tables)
    string(APPEND registrations "  {\n    EnvironmentDescription d = describe<${type}>();\n    d.kernels = {${tables}};\n    register_environment(std::move(d));\n  }\n")
  endforeach()
  file(CONFIGURE OUTPUT ${folder}/register.cpp CONTENT "// Generated: registers ${name}.
#include <utility>

${includes}
#include \"kernels/describe.hpp\"

namespace millrace {
${declarations}
void register_environment(EnvironmentDescription description);
void register_${name}();
void register_${name}() {
${registrations}}
}  // namespace millrace
" @ONLY)
  target_sources(${target} PRIVATE ${folder}/register.cpp)
  millrace_isa_objects(${target} SUFFIX ${name}_ REFERENCE SOURCES ${sources})
endfunction()
