// The environments by id; see registry.hpp.
#include "runtime/registry.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <utility>

#include "runtime/config_nearest.hpp"
#include "runtime/error.hpp"

namespace millrace {

void register_builtin_environments();

namespace {

using Table = std::map<std::string, EnvironmentDescription, std::less<>>;

Table& registered() {
  static Table table;
  return table;
}

/// The table with the built-in environments in it.
const Table& all() {
  static const bool filled = [] {
    register_builtin_environments();
    return true;
  }();
  (void)filled;
  return registered();
}

bool machine_has(Isa isa) {
  switch (isa) {
    case Isa::kReference:
    case Isa::kBaseline:
      return true;
#if defined(__x86_64__)
    case Isa::kAvx2:
      return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0 &&
             __builtin_cpu_supports("bmi") != 0 && __builtin_cpu_supports("bmi2") != 0;
    case Isa::kAvx512:
      return machine_has(Isa::kAvx2) && __builtin_cpu_supports("avx512f") != 0 &&
             __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512cd") != 0 &&
             __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
#else
    case Isa::kAvx2:
    case Isa::kAvx512:
      return false;
#endif
  }
  return false;
}

void check_description(const EnvironmentDescription& d) {
  if (d.id.empty() || d.id.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") !=
                          std::string::npos) {
    throw UserError(fmt::format(
        "environment \"{}\": an id is not empty and has letters, digits, dots, underscores and hyphens only.", d.id));
  }
  if (d.is_discrete && d.max_actions < 1) {
    throw UserError(fmt::format("environment \"{}\": it has {} actions, and at least 1 is needed.", d.id, d.max_actions));
  }
  if (d.num_agents < 1 || d.num_agents > 1024) {
    throw UserError(fmt::format("environment \"{}\": it has {} agents; allowed are 1 to 1024.", d.id, d.num_agents));
  }
  if (d.state_words > (1 << 16) || d.observation_words > (1 << 16)) {
    throw UserError(fmt::format("environment \"{}\": State and Observation may take at most 256 KiB each.", d.id));
  }
}

}  // namespace

void register_environment(EnvironmentDescription description) {
  check_description(description);
  std::string id = description.id;
  if (!registered().emplace(id, std::move(description)).second) {
    throw UserError(fmt::format("environment \"{}\": the id is taken; choose another.", id));
  }
}

std::vector<const EnvironmentDescription*> environments() {
  std::vector<const EnvironmentDescription*> list;
  for (const auto& [id, description] : all()) list.push_back(&description);
  return list;
}

const EnvironmentDescription& find_environment(std::string_view id) {
  const auto found = all().find(id);
  if (found != all().end()) return found->second;
  // The nearest three; an id's version is often what was left out, so that it costs nothing.
  std::vector<std::pair<std::size_t, std::string_view>> nearest;
  for (const auto& [name, description] : all()) {
    const std::string_view stem = std::string_view(name).substr(0, name.rfind("-v"));
    nearest.emplace_back(std::min(configuration::edit_distance(id, name), configuration::edit_distance(id, stem)), name);
  }
  std::stable_sort(nearest.begin(), nearest.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::string hint;
  for (std::size_t i = 0; i < nearest.size() && i < 3; ++i) {
    hint += fmt::format("{}\"{}\"", i == 0 ? "" : ", ", nearest[i].second);
  }
  throw UserError(fmt::format("There is no environment \"{}\"; the nearest are {} (`rl_run envs` lists all).", id, hint));
}

std::vector<ParameterField> parameter_fields(std::string_view id) {
  std::vector<ParameterField> fields;
  for (const FieldDescription& f : find_environment(id).config_fields) {
    ParameterField field;
    field.name = f.name;
    field.type = f.type == FieldType::kFloat   ? ParameterType::kFloat
                 : f.type == FieldType::kInt32 ? ParameterType::kInt
                                               : ParameterType::kBool;
    field.default_value = f.default_value;
    field.low = f.low;
    field.high = f.high;
    field.doc = f.doc;
    fields.push_back(std::move(field));
  }
  return fields;
}

std::vector<std::byte> make_environment_config(const EnvironmentDescription& environment,
                                               const std::vector<EnvParameter>& params) {
  std::vector<std::byte> bytes = environment.default_config;
  for (const EnvParameter& parameter : params) {
    for (const FieldDescription& field : environment.config_fields) {
      if (field.name != parameter.name) continue;
      std::byte* place = bytes.data() + field.offset;
      if (field.type == FieldType::kFloat) {
        const auto value = static_cast<float>(parameter.value);
        std::memcpy(place, &value, sizeof(value));
      } else if (field.type == FieldType::kInt32) {
        const auto value = static_cast<std::int32_t>(parameter.value);
        std::memcpy(place, &value, sizeof(value));
      } else {
        const bool value = std::abs(parameter.value) > 0.5;
        std::memcpy(place, &value, sizeof(value));
      }
    }
  }
  return bytes;
}

Isa best_isa() {
  for (const Isa isa : {Isa::kAvx512, Isa::kAvx2}) {
    if (machine_has(isa)) return isa;
  }
  return Isa::kBaseline;
}

std::string_view to_string(Isa isa) {
  switch (isa) {
    case Isa::kReference:
      return "reference";
    case Isa::kBaseline:
      return "baseline";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
  }
  return "baseline";
}

const EnvironmentKernels& kernels_for(const EnvironmentDescription& environment, Isa isa) {
  if (machine_has(isa)) {
    for (const EnvironmentKernels* kernels : environment.kernels) {
      if (kernels->isa == isa) return *kernels;
    }
  }
  throw UserError(fmt::format("run.isa: this machine has no {}; the best it has is {}.", to_string(isa),
                              to_string(best_isa())));
}

}  // namespace millrace
