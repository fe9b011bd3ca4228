// rl_run envs: the environments, or all about one.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "apps/rl_run/commands.hpp"
#include "apps/rl_run/interrupt.hpp"
#include "runtime/registry.hpp"

namespace millrace {
namespace {

using Json = nlohmann::ordered_json;

Json bound(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

/// A float's value as people wrote it: 0.02, not 0.0199999996.
double plain(double value) {
  const auto narrow = static_cast<float>(value);
  return static_cast<double>(narrow) == value ? std::stod(fmt::format("{}", narrow)) : value;
}

const char* type_name(FieldType type) {
  switch (type) {
    case FieldType::kFloat:
      return "float";
    case FieldType::kInt32:
      return "int";
    case FieldType::kUint32:
      return "uint";
    case FieldType::kBool:
      return "bool";
  }
  return "float";
}

Json default_of(const FieldDescription& field) {
  if (field.type == FieldType::kFloat) return plain(field.default_value);
  if (field.type == FieldType::kBool) return field.default_value > 0.5;
  return static_cast<std::int64_t>(field.default_value);
}

Json details(const EnvironmentDescription& e) {
  Json json;
  json["id"] = e.id;
  json["summary"] = e.summary;
  json["agents"] = e.num_agents;
  Json observation;
  if (e.is_image) {
    observation = {{"type", "image"}, {"shape", {e.channels, e.height, e.width}}, {"values", {0, 1}}};
  } else {
    observation = {{"type", "vector"}, {"size", e.observation_size}, {"components", Json::array()}};
    for (const ComponentDescription& c : e.observation_fields) {
      observation["components"].push_back(
          {{"name", c.name}, {"low", bound(c.low)}, {"high", bound(c.high)}, {"doc", c.doc}});
    }
  }
  json["observation"] = observation;
  if (e.is_discrete) {
    json["action"] = {{"type", "discrete"}, {"count", e.rules.num_actions(e.default_config.data())}};
  } else {
    json["action"] = {{"type", "continuous"}, {"components", Json::array()}};
    for (const ComponentDescription& c : e.action_fields) {
      json["action"]["components"].push_back({{"name", c.name}, {"low", bound(c.low)}, {"high", bound(c.high)}});
    }
  }
  json["max_episode_steps"] = e.rules.max_episode_steps(e.default_config.data());
  json["solved_at"] = e.solved_at ? Json(*e.solved_at) : Json(nullptr);
  json["state"] = Json::array();
  for (const FieldDescription& f : e.state_fields) {
    json["state"].push_back({{"name", f.name},
                             {"type", type_name(f.type)},
                             {"count", f.count},
                             {"low", bound(f.low)},
                             {"high", bound(f.high)},
                             {"doc", f.doc}});
  }
  json["params"] = Json::array();
  for (const FieldDescription& f : e.config_fields) {
    json["params"].push_back({{"name", f.name},
                              {"type", type_name(f.type)},
                              {"default", default_of(f)},
                              {"low", bound(f.low)},
                              {"high", bound(f.high)},
                              {"doc", f.doc}});
  }
  return json;
}

std::string spaces(const EnvironmentDescription& e) {
  const std::string seen = e.is_image ? fmt::format("{}x{}x{} bits", e.channels, e.height, e.width)
                                      : fmt::format("{} floats", e.observation_size);
  const std::string done = e.is_discrete ? fmt::format("{} actions", e.rules.num_actions(e.default_config.data()))
                                         : fmt::format("{} real actions", e.action_fields.size());
  return seen + ", " + done + (e.num_agents > 1 ? fmt::format(", {} agents", e.num_agents) : "");
}

void print_details(const EnvironmentDescription& e) {
  fmt::print("{}: {}\n  {}; time limit {}; solved at {}\n", e.id, e.summary, spaces(e),
             e.rules.max_episode_steps(e.default_config.data()), e.solved_at ? fmt::format("{:g}", *e.solved_at) : "-");
  fmt::print("\nObservation\n");
  for (const ComponentDescription& c : e.observation_fields) {
    fmt::print("  {:<24} {:>12g} to {:<12g} {}\n", c.name, c.low, c.high, c.doc);
  }
  if (e.is_image) fmt::print("  {} planes of {} x {} pixels, 0 or 1\n", e.channels, e.height, e.width);
  fmt::print("\nState\n");
  for (const FieldDescription& f : e.state_fields) {
    fmt::print("  {:<24} {:>12g} to {:<12g} {}\n", f.name, f.low, f.high, f.doc);
  }
  fmt::print("\nParameters (env.params)\n");
  for (const FieldDescription& f : e.config_fields) {
    fmt::print("  {:<24} {:>12} {:>10g} to {:<10g} {}\n", f.name, default_of(f).dump(), f.low, f.high, f.doc);
  }
}

}  // namespace

int run_envs(const EnvsArguments& arguments) {
  if (arguments.id) {
    const EnvironmentDescription& environment = find_environment(*arguments.id);
    if (arguments.json) {
      fmt::print("{}\n", details(environment).dump());
    } else {
      print_details(environment);
    }
    return kExitDone;
  }
  Json list = Json::array();
  for (const EnvironmentDescription* environment : environments()) {
    if (arguments.json) {
      list.push_back(details(*environment));
    } else {
      fmt::print("{:<20} {:<24} {}\n", environment->id, spaces(*environment), environment->summary);
    }
  }
  if (arguments.json) fmt::print("{}\n", list.dump());
  return kExitDone;
}

}  // namespace millrace
