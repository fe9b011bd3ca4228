// Reading configurations, strictly: each mistake is a UserError whose one sentence names the file, line and
// column (or the command-line argument), the key, what is wrong and what is allowed. Nothing is ignored or
// altered.
//
// Thread safety: every function may be called from any thread at the same time.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/config.hpp"

namespace millrace {

/// A field of an environment's Config as configurations see it. `low` and `high` are allowed themselves and
/// may be infinite. Values of a kFloat are 32-bit floats.
struct ParameterField {
  std::string name;
  ParameterType type = ParameterType::kFloat;
  double default_value = 0.0;
  double low = 0.0;
  double high = 0.0;
  std::string doc;
};

/// The fields of the environment with this id, in their order. Throws UserError (a sentence) if there is
/// none.
using ParameterResolver = std::function<std::vector<ParameterField>(const std::string& env_id)>;

/// Files beyond this are refused unread.
inline constexpr std::size_t kMaxConfigBytes = std::size_t{1} << 20;

/// Reads the TOML file at `path`, then the overrides, each `key.path=value` with a TOML value. Where a key
/// holds text, the value may go without quotes (`run.device=cuda:1`). A bare `default` takes a setting of the
/// file back. Throws UserError.
[[nodiscard]] ExperimentConfig load_config(const std::string& path, std::span<const std::string> overrides,
                                           const ParameterResolver& resolve_params);

/// The same for a text at hand. `file_name` stands in messages, and its stem is the default of `experiment`.
[[nodiscard]] ExperimentConfig parse_config(std::string_view text, std::string_view file_name,
                                            std::span<const std::string> overrides,
                                            const ParameterResolver& resolve_params);

/// Checks a configuration that was put together in code: ranges, settings that need or exclude each other.
/// `config.env.params` is checked by whoever knows the environment. Throws UserError.
void validate_config(const ExperimentConfig& config);

}  // namespace millrace
