// What a key takes, in code and in words, and values in TOML's spelling.
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>

#include "runtime/config_document.hpp"
#include "runtime/config_schema.hpp"

namespace millrace::configuration {
namespace {

template <class Float>
std::string shortest(Float value) {
  std::array<char, 64> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  std::string text(buffer.data(), end);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";  // without either, TOML reads an integer
  return text;
}

// Bounds are written as people write them: 65536, 0.25, 1e-30.
std::string bound_text(double bound) { return fmt::format("{}", bound); }

std::string big_integer(std::int64_t value) {
  if (value == std::numeric_limits<std::int64_t>::max()) return "2^63 - 1";
  if (value == std::int64_t{1} << 62) return "2^62";
  return fmt::format("{}", value);
}

bool within(const Bounds& bounds, std::int64_t value) {
  if (value < bounds.low || value > bounds.high) return false;
  return !bounds.power_of_two || (value > 0 && (value & (value - 1)) == 0);
}

bool within(const Interval& interval, double value) {
  if (!std::isfinite(value)) return false;
  if (value == 0.0) {
    if (!interval.zero) return false;
  } else if (std::fabs(value) < kMagnitudeLow || std::fabs(value) > kMagnitudeHigh) {
    return false;
  }
  const bool high_enough = interval.low_open ? value > interval.low : value >= interval.low;
  const bool low_enough = interval.high_open ? value < interval.high : value <= interval.high;
  return high_enough && low_enough;
}

std::string joined_choices(const std::vector<const char*>& choices) {
  std::string text;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (i > 0) text += i + 1 == choices.size() ? " or " : ", ";
    text += fmt::format("\"{}\"", choices[i]);
  }
  return text;
}

}  // namespace

std::string float_text(double value) { return shortest(value); }
std::string float_text(float value) { return shortest(value); }

bool accepts(const Key& key, const KeyValue& value) {
  if (std::holds_alternative<std::monostate>(value)) return key.optional;
  switch (key.type) {
    case KeyType::kText: {
      const auto* text = std::get_if<std::string>(&value);
      return text && key.text.accepts(*text);
    }
    case KeyType::kInteger: {
      const auto* integer = std::get_if<std::int64_t>(&value);
      return integer && within(key.bounds, *integer);
    }
    case KeyType::kFloat: {
      const auto* number = std::get_if<double>(&value);
      return number && within(key.interval, *number);
    }
    case KeyType::kBoolean:
      return std::holds_alternative<bool>(value);
    case KeyType::kChoice: {
      const auto* index = std::get_if<std::int64_t>(&value);
      return index && *index >= 0 && *index < static_cast<std::int64_t>(key.choices.size());
    }
    case KeyType::kIntegerList: {
      const auto* list = std::get_if<std::vector<std::int64_t>>(&value);
      if (!list || list->empty() || list->size() > key.max_length) return false;
      for (const std::int64_t element : *list)
        if (!within(key.bounds, element)) return false;
      return true;
    }
  }
  return false;
}

std::string allowed_text(const Bounds& bounds) {
  return fmt::format("{} from {} to {}", bounds.power_of_two ? "a power of two" : "an integer",
                     big_integer(bounds.low), big_integer(bounds.high));
}

std::string allowed_text(const Interval& interval) {
  if (!interval.zero) return "a finite number other than 0";
  const bool has_low = std::isfinite(interval.low);
  const bool has_high = std::isfinite(interval.high);
  const std::string low = bound_text(interval.low);
  const std::string high = bound_text(interval.high);
  if (!has_low && !has_high) return "a finite number";
  if (!has_high) return fmt::format("a number {} {}", interval.low_open ? "above" : "of at least", low);
  if (!has_low) return fmt::format("a number {} {}", interval.high_open ? "below" : "of at most", high);
  if (!interval.low_open && !interval.high_open) return fmt::format("a number from {} to {}", low, high);
  return fmt::format("a number {} {} and {} {}", interval.low_open ? "above" : "of at least", low,
                     interval.high_open ? "below" : "at most", high);
}

std::string allowed_text(const Key& key) {
  switch (key.type) {
    case KeyType::kText:
      return key.text.allowed;
    case KeyType::kInteger:
      return allowed_text(key.bounds);
    case KeyType::kFloat:
      return allowed_text(key.interval);
    case KeyType::kBoolean:
      return "true or false";
    case KeyType::kChoice:
      return joined_choices(key.choices);
    case KeyType::kIntegerList:
      return fmt::format("an array of 1 to {} elements, each {}", key.max_length, allowed_text(key.bounds));
  }
  return {};
}

std::string value_text(const Key& key, const KeyValue& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* number = std::get_if<double>(&value)) return float_text(*number);
  if (const auto* text = std::get_if<std::string>(&value)) return quoted(*text);
  if (const auto* list = std::get_if<std::vector<std::int64_t>>(&value))
    return fmt::format("[{}]", fmt::join(*list, ", "));
  if (const auto* integer = std::get_if<std::int64_t>(&value)) {
    if (key.type == KeyType::kChoice && accepts(key, value))
      return quoted(key.choices[static_cast<std::size_t>(*integer)]);
    return fmt::format("{}", *integer);
  }
  return "not set";
}

}  // namespace millrace::configuration
