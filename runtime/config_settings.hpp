// What people wrote: the settings of a file and of the command line with their places, before the schema's
// types and ranges are applied. Keys are known ones, each is set at most once.
//
// Thread safety: plain values and pure functions.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/config_document.hpp"

namespace millrace::configuration {

struct Setting {
  std::string key;  // in full; "env.params.NAME" for a parameter, whose name is not checked yet
  RawValue value;
  std::string where;  // how a message about it begins
  bool from_command_line = false;
};

inline constexpr std::string_view kParameters = "env.params";

/// Whether the key is one of the environment's parameters.
bool is_parameter(std::string_view key);

/// The settings of a TOML text. Throws UserError for what is not TOML, for unknown keys, and for tables and
/// values in each other's places.
std::vector<Setting> read_settings(std::string_view text, std::string_view file_name);

/// Replaces, adds or (`default`) takes back settings by `key.path=value` arguments. Throws UserError as
/// above, and for a key that is given twice.
void apply_overrides(std::vector<Setting>& settings, std::span<const std::string> overrides);

/// The setting of that key, or null.
const Setting* find_setting(const std::vector<Setting>& settings, std::string_view key);

}  // namespace millrace::configuration
