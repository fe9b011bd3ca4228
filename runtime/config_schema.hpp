// The schema: one declaration for each key of a configuration, from which reading, range checks, the resolved
// text, the reference page and the "allowed" part of every error message are made.
//
// Thread safety: constant after first use.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/config.hpp"

namespace millrace::configuration {

/// A key's value in the schema's own terms; a choice is the index of its name, monostate is "not set".
using KeyValue =
    std::variant<std::monostate, bool, std::int64_t, double, std::string, std::vector<std::int64_t>>;

enum class KeyType { kText, kInteger, kFloat, kBoolean, kChoice, kIntegerList };

/// Integers from `low` to `high`, both allowed.
struct Bounds {
  std::int64_t low = 0;
  std::int64_t high = std::numeric_limits<std::int64_t>::max();
  bool power_of_two = false;
};

/// Finite numbers between `low` and `high`. Nothing but 0 has a magnitude outside
/// kMagnitudeLow..kMagnitudeHigh, so that each survives a conversion to 32 bits.
struct Interval {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_open = false;
  bool high_open = false;
  bool zero = true;
};
inline constexpr double kMagnitudeLow = 1e-30;
inline constexpr double kMagnitudeHigh = 1e30;

/// A setting under which a key has a meaning; without it, setting the key is a mistake.
struct Condition {
  const char* text;
  bool (*holds)(const ExperimentConfig&);
};

struct TextRule {
  const char* allowed;
  bool (*accepts)(std::string_view);
};

struct Key {
  const char* name;  // the full one, "algo.lr"
  KeyType type;
  const char* doc;
  KeyValue (*get)(const ExperimentConfig&);
  void (*set)(ExperimentConfig&, const KeyValue&);  // REQUIRES: accepts(key, value)
  Bounds bounds = {};                               // kInteger; each element of a kIntegerList
  std::size_t max_length = 0;                       // kIntegerList
  Interval interval = {};                           // kFloat
  std::vector<const char*> choices = {};            // kChoice
  TextRule text = {};                               // kText
  bool optional = false;                            // kFloat that may be not set
  bool required = false;
  const Condition* only_with = nullptr;
  const char* default_text = nullptr;  // in place of the value, where that says more
};

/// All keys but `env.params`, in the order of the resolved text; keys of one section stand together.
const std::vector<Key>& schema();

/// The key of that name, or null.
const Key* find_key(std::string_view name);

/// The key's section, "algo" of "algo.lr"; empty at the top.
std::string_view section_of(std::string_view key_name);
std::string_view leaf_of(std::string_view key_name);

/// Sections in order, and what each is for.
struct Section {
  const char* name;
  const char* doc;
};
const std::vector<Section>& sections();

/// Whether the value has the key's type and lies in its range.
bool accepts(const Key& key, const KeyValue& value);

/// What the key takes, as a noun phrase: "an integer from 1 to 65536".
std::string allowed_text(const Key& key);
std::string allowed_text(const Bounds& bounds);
std::string allowed_text(const Interval& interval);

/// The value as TOML: `[64, 64]`, `"radam"`, `0.99`.
std::string value_text(const Key& key, const KeyValue& value);

/// The shortest decimal form that reads back as the same bits, with a point or an exponent.
std::string float_text(double value);
std::string float_text(float value);

/// A rule that joins several keys.
struct CrossCheck {
  std::vector<const char*> keys;                                   // the one to point at first
  std::optional<std::string> (*problem)(const ExperimentConfig&);  // a clause without a period
};
const std::vector<CrossCheck>& cross_checks();

/// The first rule that `config` breaks, as the names to point at and a clause without a period: a key that is
/// set without a meaning, then the cross checks. `is_set` says which keys somebody wrote.
struct Conflict {
  std::vector<const char*> keys;
  std::string clause;
};
std::optional<Conflict> find_conflict(const ExperimentConfig& config,
                                      const std::function<bool(const Key&)>& is_set);

}  // namespace millrace::configuration
