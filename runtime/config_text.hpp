// Configurations as text: the resolved TOML of a run folder, and the reference page docs/configuration.md.
//
// Thread safety: pure functions.
#pragma once

#include <string>

#include "runtime/config.hpp"

namespace millrace {

/// The complete configuration as TOML: every key in the schema's order, one a line. Numbers have the shortest
/// form that reads back as the same bits. Keys that have no meaning beside the others (momentum with Adam) or
/// no value (eval.stop_at) stand as comments. parse_config of the result gives a value equal to `config`.
/// REQUIRES: validate_config(config) passes.
[[nodiscard]] std::string to_toml(const ExperimentConfig& config);

/// The text of docs/configuration.md: each key with type, default, what is allowed, and meaning.
[[nodiscard]] std::string configuration_markdown();

}  // namespace millrace
