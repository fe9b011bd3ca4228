#include "runtime/config_settings.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/config_nearest.hpp"
#include "runtime/config_schema.hpp"
#include "runtime/error.hpp"

namespace millrace::configuration {
namespace {

bool is_table_name(std::string_view key) {
  return key == kParameters || std::ranges::any_of(sections(), [&](const Section& section) {
           return *section.name && key == section.name;
         });
}

std::string keys_of_section(std::string_view section) {
  std::string text;
  for (const Key& key : schema()) {
    if (section_of(key.name) == section)
      text += fmt::format("{}{}", text.empty() ? "" : ", ", leaf_of(key.name));
  }
  if (section == "env") text += ", params";
  if (section.empty()) {
    for (const Section& table : sections())
      if (*table.name) text += fmt::format(", [{}]", table.name);
  }
  return text;
}

[[noreturn]] void fail_unknown(const std::string& where, std::string_view key) {
  std::vector<std::string_view> names = {kParameters};
  for (const Key& known : schema()) names.emplace_back(known.name);
  for (const Section& section : sections())
    if (*section.name) names.emplace_back(section.name);
  const Nearest nearest = nearest_name(key, names);
  std::string sentence = fmt::format("{}: {} is not a known key; the nearest known key is {}", where,
                                     printable(key), nearest.name);
  const std::string_view section = section_of(key);
  if (!nearest.near && (section.empty() || is_table_name(section)))
    sentence += fmt::format(", and allowed {} are {}",
                            section.empty() ? "at the top" : fmt::format("in [{}]", section),
                            keys_of_section(section));
  throw UserError(sentence + '.');
}

// Refuses unknown keys, and tables where values belong or the other way round.
void check_place(const Setting& setting) {
  const bool is_table = setting.value.kind == RawValue::Kind::kTable;
  if (is_parameter(setting.key)) return;
  if (is_table_name(setting.key)) {
    if (is_table) return;
    throw UserError(
        fmt::format("{}: {} is {}; allowed: a table.", setting.where, setting.key, describe(setting.value)));
  }
  const Key* key = find_key(setting.key);
  if (!key) fail_unknown(setting.where, setting.key);
  if (is_table)
    throw UserError(
        fmt::format("{}: {} is a table; allowed: {}.", setting.where, key->name, allowed_text(*key)));
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

struct Override {
  std::string_view key;
  std::string_view value;
  std::string where;
};

Override split_override(const std::string& argument) {
  const std::string where = fmt::format("command line: {}", printable(argument));
  const bool has_control =
      std::ranges::any_of(argument, [](char c) { return (c >= 0 && c < ' ') || c == '\x7f'; });
  if (has_control || find_invalid_utf8(argument) != std::string::npos)
    throw UserError(
        fmt::format("{}: this holds control characters or bytes that are not UTF-8; allowed: "
                    "key.path=value in plain text.",
                    where));
  const std::size_t equals = argument.find('=');
  if (equals == std::string::npos)
    throw UserError(
        fmt::format("{}: this sets nothing; allowed: key.path=value, for instance algo.lr=0.001.", where));
  const std::string_view text = argument;
  Override split{trimmed(text.substr(0, equals)), trimmed(text.substr(equals + 1)), where};
  if (split.key.empty())
    throw UserError(fmt::format("{}: there is no key before \"=\"; allowed: key.path=value.", where));
  if (split.value.empty())
    throw UserError(fmt::format("{}: {} has no value after \"=\"; allowed: key.path=value.", where,
                                printable(split.key)));
  return split;
}

// A comment after the value would be dropped unseen; it also hides the bracket of the second form, which then
// is not TOML. The first form refuses what would close that bracket itself.
RawValue toml_value(std::string_view text) {
  RawValue value = parse_document(fmt::format("v = {}", text), "").at(0).value;
  const RawValue boxed = parse_document(fmt::format("v = [{}]", text), "").at(0).value;
  if (boxed.elements.size() != 1 || text.ends_with(',')) throw UserError("more than one value");
  return value;
}

RawValue override_value(const Override& given, const Key* key) {
  const bool takes_text = key && (key->type == KeyType::kText || key->type == KeyType::kChoice);
  if (takes_text && std::string_view("\"'[{").find(given.value.front()) == std::string_view::npos) {
    RawValue value;
    value.kind = RawValue::Kind::kString;
    value.string = given.value;
    return value;
  }
  try {
    return toml_value(given.value);
  } catch (const UserError&) {
    throw UserError(fmt::format("{}: the value of {} is not TOML; allowed: {}.", given.where,
                                printable(given.key), key ? allowed_text(*key) : "a number, true or false"));
  }
}

void apply_override(std::vector<Setting>& settings, const Override& given) {
  const bool take_back = given.value == "default";
  if (take_back && given.key == kParameters) {
    std::erase_if(settings, [](const Setting& setting) { return is_parameter(setting.key); });
    return;
  }
  if (is_table_name(given.key))
    throw UserError(fmt::format("{}: {} is a table; allowed: its keys one by one, as {}.KEY=VALUE.",
                                given.where, given.key, given.key));
  const Key* key = find_key(given.key);
  if (!key && !is_parameter(given.key)) fail_unknown(given.where, given.key);
  Setting setting{std::string(given.key), {}, given.where, true};
  if (!take_back) {
    setting.value = override_value(given, key);
    check_place(setting);
  }
  std::erase_if(settings, [&](const Setting& earlier) { return earlier.key == given.key; });
  if (!take_back) settings.push_back(std::move(setting));
}

}  // namespace

bool is_parameter(std::string_view key) {
  return key.size() > kParameters.size() && key.starts_with(kParameters) && key[kParameters.size()] == '.';
}

const Setting* find_setting(const std::vector<Setting>& settings, std::string_view key) {
  const auto found =
      std::ranges::find_if(settings, [&](const Setting& setting) { return setting.key == key; });
  return found == settings.end() ? nullptr : &*found;
}

std::vector<Setting> read_settings(std::string_view text, std::string_view file_name) {
  std::vector<Setting> settings;
  for (Assignment& assignment : parse_document(text, file_name)) {
    Setting setting{std::move(assignment.key), std::move(assignment.value),
                    fmt::format("{}:{}:{}", printable(file_name, 400), assignment.line, assignment.column)};
    check_place(setting);
    if (!is_table_name(setting.key)) settings.push_back(std::move(setting));
  }
  return settings;
}

void apply_overrides(std::vector<Setting>& settings, std::span<const std::string> overrides) {
  std::vector<std::string_view> given_keys;
  for (const std::string& argument : overrides) {
    const Override given = split_override(argument);
    if (std::ranges::find(given_keys, given.key) != given_keys.end())
      throw UserError(
          fmt::format("{}: {} is given twice; allowed: each key once.", given.where, printable(given.key)));
    given_keys.push_back(given.key);
    apply_override(settings, given);
  }
}

}  // namespace millrace::configuration
