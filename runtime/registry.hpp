// The environments by id.
//
// Thread safety: registration happens before main() or while loading a plugin; afterwards reading is free.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kernels/environment_kernels.hpp"
#include "runtime/config_reader.hpp"

namespace millrace {

/// Adds an environment. Throws UserError if the id is taken or the description is out of bounds.
void register_environment(EnvironmentDescription description);

/// All environments, sorted by id.
[[nodiscard]] std::vector<const EnvironmentDescription*> environments();

/// The environment with that id. Throws UserError, naming the nearest ids, if there is none.
[[nodiscard]] const EnvironmentDescription& find_environment(std::string_view id);

/// Its Config fields in the form that load_config() checks `env.params` against.
[[nodiscard]] std::vector<ParameterField> parameter_fields(std::string_view id);

/// Bytes of the environment's Config with the given parameters in place.
[[nodiscard]] std::vector<std::byte> make_environment_config(const EnvironmentDescription& environment,
                                                             const std::vector<EnvParameter>& params);

/// The best instruction set of this machine (never kReference).
[[nodiscard]] Isa best_isa();
/// "baseline", "avx2", "avx512" or "reference".
[[nodiscard]] std::string_view to_string(Isa isa);
/// The table for `isa`. Throws UserError if this build or this machine does not have it.
[[nodiscard]] const EnvironmentKernels& kernels_for(const EnvironmentDescription& environment, Isa isa);

}  // namespace millrace
