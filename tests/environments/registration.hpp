// The test environments, in the registry: call register_test_environments() once, before looking one up.
#pragma once

#include <vector>

#include "kernels/environment_kernels.hpp"
#include "runtime/registry.hpp"

namespace millrace {

/// Generated. Throws UserError when called again.
void register_test_environments();

namespace testing_environments {

/// The instruction sets that this machine has, without the reference.
inline std::vector<Isa> machine_isas() {
  std::vector<Isa> isas;
  for (const Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
    if (isa <= best_isa()) isas.push_back(isa);
  }
  return isas;
}

/// The environment with that id, the test environments included.
inline const EnvironmentDescription& environment(const char* id) {
  static const bool registered = (register_test_environments(), true);
  (void)registered;
  return find_environment(id);
}

}  // namespace testing_environments
}  // namespace millrace
