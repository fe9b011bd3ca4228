// From settings to a checked configuration.
#include "runtime/config_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "runtime/config_document.hpp"
#include "runtime/config_nearest.hpp"
#include "runtime/config_schema.hpp"
#include "runtime/config_settings.hpp"
#include "runtime/error.hpp"

namespace millrace {

using namespace configuration;

namespace {

constexpr double kExactIntegers = 9007199254740992.0;  // 2^53: beyond, doubles leave integers out

std::optional<double> as_number(const RawValue& raw) {
  if (raw.kind == RawValue::Kind::kFloat) return raw.number;
  if (raw.kind != RawValue::Kind::kInteger) return std::nullopt;
  constexpr std::int64_t kLimit = std::int64_t{1} << 53;
  if (raw.integer < -kLimit || raw.integer > kLimit) return std::nullopt;
  return static_cast<double>(raw.integer);
}

// The value in the key's type; nothing if it has another one. Its range is not looked at.
KeyValue convert(const Key& key, const RawValue& raw) {
  using Kind = RawValue::Kind;
  switch (key.type) {
    case KeyType::kText:
      return raw.kind == Kind::kString ? KeyValue(raw.string) : KeyValue();
    case KeyType::kBoolean:
      return raw.kind == Kind::kBoolean ? KeyValue(raw.boolean) : KeyValue();
    case KeyType::kInteger:
      return raw.kind == Kind::kInteger ? KeyValue(raw.integer) : KeyValue();
    case KeyType::kFloat: {
      const std::optional<double> number = as_number(raw);
      return number ? KeyValue(*number) : KeyValue();
    }
    case KeyType::kChoice: {
      const auto found =
          std::ranges::find_if(key.choices, [&](const char* name) { return raw.string == name; });
      if (raw.kind != Kind::kString || found == key.choices.end()) return {};
      return static_cast<std::int64_t>(found - key.choices.begin());
    }
    case KeyType::kIntegerList: {
      if (raw.kind != Kind::kArray) return {};
      std::vector<std::int64_t> list;
      for (const RawValue& element : raw.elements) {
        if (element.kind != Kind::kInteger) return {};
        list.push_back(element.integer);
      }
      return list;
    }
  }
  return {};
}

// What helps beyond the list of allowed values.
std::string hint(KeyType type, const RawValue& raw) {
  if (type == KeyType::kInteger && raw.kind == RawValue::Kind::kFloat) {
    const bool whole = std::fabs(raw.number) <= kExactIntegers && std::trunc(raw.number) == raw.number;
    return whole
               ? fmt::format(" (write {}, without point and exponent)", static_cast<std::int64_t>(raw.number))
               : "";
  }
  if (type != KeyType::kFloat) return "";
  if (raw.kind == RawValue::Kind::kInteger && !as_number(raw))
    return " (integers beyond 2^53 are not exact as a float)";
  const double magnitude = std::fabs(as_number(raw).value_or(0.0));
  const bool odd = std::isfinite(magnitude) && magnitude > 0.0 &&
                   (magnitude < kMagnitudeLow || magnitude > kMagnitudeHigh);
  return odd ? fmt::format(" with a magnitude from {} to {}", kMagnitudeLow, kMagnitudeHigh) : "";
}

[[noreturn]] void fail_value(const Setting& setting, const std::string& allowed, const std::string& more) {
  std::string is = describe(setting.value);
  const auto& elements = setting.value.elements;
  for (std::size_t i = 0; i < std::min<std::size_t>(elements.size(), 8); ++i)
    is += fmt::format("{}{}", i == 0 ? ": " : ", ", describe(elements[i]));
  throw UserError(
      fmt::format("{}: {} is {}; allowed: {}{}.", setting.where, printable(setting.key), is, allowed, more));
}

void apply_setting(const Key& key, const Setting& setting, ExperimentConfig& config) {
  const KeyValue value = convert(key, setting.value);
  if (std::holds_alternative<std::monostate>(value) || !accepts(key, value))
    fail_value(setting, allowed_text(key), hint(key.type, setting.value));
  key.set(config, value);
}

std::string allowed_text(const ParameterField& field) {
  if (field.type == ParameterType::kBool) return "true or false";
  const bool integer = field.type == ParameterType::kInt;
  const auto bound = [&](double value) {
    return integer ? fmt::format("{:.0f}", value) : fmt::format("{}", value);
  };
  const std::string noun = integer ? "an integer" : "a finite number";
  if (std::isfinite(field.low) && std::isfinite(field.high))
    return fmt::format("{} from {} to {}", integer ? noun : "a number", bound(field.low), bound(field.high));
  if (std::isfinite(field.low)) return fmt::format("{} of at least {}", noun, bound(field.low));
  if (std::isfinite(field.high)) return fmt::format("{} of at most {}", noun, bound(field.high));
  return noun;
}

// Bounds are rounded like the values, so that a bound that 32 bits cannot hold is itself allowed.
std::optional<double> float_parameter(const ParameterField& field, const RawValue& raw) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  const std::optional<double> number = as_number(raw);
  if (!number || !(std::fabs(*number) <= kLargest)) return std::nullopt;
  const auto rounded = [](double bound) {
    return std::fabs(bound) <= kLargest ? static_cast<double>(static_cast<float>(bound)) : bound;
  };
  const double value = rounded(*number);
  const bool vanished = value == 0.0 && *number != 0.0;
  const bool inexact = raw.kind == RawValue::Kind::kInteger && value != *number;
  if (vanished || inexact || value < rounded(field.low) || value > rounded(field.high)) return std::nullopt;
  return value;
}

std::optional<double> parameter_value(const ParameterField& field, const RawValue& raw) {
  switch (field.type) {
    case ParameterType::kBool:
      if (raw.kind != RawValue::Kind::kBoolean) return std::nullopt;
      return raw.boolean ? 1.0 : 0.0;
    case ParameterType::kInt: {
      if (raw.kind != RawValue::Kind::kInteger) return std::nullopt;
      const std::optional<double> value = as_number(raw);
      return value && *value >= field.low && *value <= field.high ? value : std::nullopt;
    }
    case ParameterType::kFloat:
      return float_parameter(field, raw);
  }
  return std::nullopt;
}

void apply_parameter(const Setting& setting, const std::vector<ParameterField>& fields,
                     ExperimentConfig& config) {
  const std::string_view name = std::string_view(setting.key).substr(kParameters.size() + 1);
  const auto field =
      std::ranges::find_if(fields, [&](const ParameterField& known) { return known.name == name; });
  if (field == fields.end()) {
    std::vector<std::string_view> names;
    for (const ParameterField& known : fields) names.emplace_back(known.name);
    const std::string known = names.empty()
                                  ? "it has none"
                                  : fmt::format("the nearest known one is {}, and allowed are {}",
                                                nearest_name(name, names).name, fmt::join(names, ", "));
    throw UserError(fmt::format("{}: {} is not a parameter of {}; {}.", setting.where, printable(setting.key),
                                config.env.id, known));
  }
  const std::optional<double> value = parameter_value(*field, setting.value);
  if (!value) {
    const KeyType type = field->type == ParameterType::kInt ? KeyType::kInteger : KeyType::kText;
    const bool is_float = field->type == ParameterType::kFloat;
    fail_value(setting, allowed_text(*field),
               is_float ? " that a 32-bit float can hold" : hint(type, setting.value));
  }
  config.env.params[static_cast<std::size_t>(field - fields.begin())].value = *value;
}

std::vector<ParameterField> resolve(const ParameterResolver& resolve_params, const Setting& id) {
  try {
    return resolve_params(id.value.string);
  } catch (const UserError& error) {
    throw UserError(fmt::format("{}: env.id: {}", id.where, error.what()));
  }
}

void apply_parameters(const std::vector<Setting>& settings, std::string_view file_name,
                      const ParameterResolver& resolve_params, ExperimentConfig& config) {
  const Setting* id = find_setting(settings, "env.id");
  if (!id)
    throw UserError(
        fmt::format("{}: env.id is missing; allowed: the id of an environment, for instance "
                    "\"CartPole-v1\".",
                    printable(file_name, 400)));
  const std::vector<ParameterField> fields = resolve(resolve_params, *id);
  for (const ParameterField& field : fields)
    config.env.params.push_back({field.name, field.type, field.default_value});
  for (const Setting& setting : settings)
    if (is_parameter(setting.key)) apply_parameter(setting, fields, config);
}

void name_after_file(std::string_view file_name, ExperimentConfig& config) {
  const Key& key = *find_key("experiment");
  config.experiment = std::filesystem::path(file_name).stem().string();
  if (!accepts(key, key.get(config)))
    throw UserError(
        fmt::format("{}: experiment is missing, and the file's name would make it \"{}\"; allowed: {}.",
                    printable(file_name, 400), printable(config.experiment), allowed_text(key)));
}

// The place of a conflict: a setting from the command line before one from the file.
void check_conflicts(const std::vector<Setting>& settings, std::string_view file_name, bool has_overrides,
                     const ExperimentConfig& config) {
  const auto conflict =
      find_conflict(config, [&](const Key& key) { return find_setting(settings, key.name) != nullptr; });
  if (!conflict) return;
  const Setting* blamed = nullptr;
  for (const char* name : conflict->keys) {
    const Setting* setting = find_setting(settings, name);
    if (setting && (!blamed || (setting->from_command_line && !blamed->from_command_line))) blamed = setting;
  }
  const bool can_take_back = blamed && has_overrides && !blamed->from_command_line;
  const std::string more =
      can_take_back ? fmt::format(" ({}=default on the command line takes it back)", blamed->key) : "";
  throw UserError(
      fmt::format("{}: {}{}.", blamed ? blamed->where : printable(file_name, 400), conflict->clause, more));
}

}  // namespace

ExperimentConfig parse_config(std::string_view text, std::string_view file_name,
                              std::span<const std::string> overrides,
                              const ParameterResolver& resolve_params) {
  std::vector<Setting> settings = read_settings(text, file_name);
  apply_overrides(settings, overrides);
  ExperimentConfig config;
  for (const Setting& setting : settings)
    if (!is_parameter(setting.key)) apply_setting(*find_key(setting.key), setting, config);
  apply_parameters(settings, file_name, resolve_params, config);
  if (!find_setting(settings, "experiment")) name_after_file(file_name, config);
  check_conflicts(settings, file_name, !overrides.empty(), config);
  return config;
}

ExperimentConfig load_config(const std::string& path, std::span<const std::string> overrides,
                             const ParameterResolver& resolve_params) {
  return parse_config(read_text_file(path, kMaxConfigBytes), path, overrides, resolve_params);
}

void validate_config(const ExperimentConfig& config) {
  for (const Key& key : schema()) {
    const KeyValue value = key.get(config);
    if (!accepts(key, value))
      throw UserError(fmt::format("configuration: {} is {}; allowed: {}.", key.name,
                                  printable(value_text(key, value)), configuration::allowed_text(key)));
  }
  const ExperimentConfig defaults;
  const auto conflict =
      find_conflict(config, [&](const Key& key) { return key.get(config) != key.get(defaults); });
  if (conflict) throw UserError(fmt::format("configuration: {}.", conflict->clause));
}

}  // namespace millrace
