// One environment instance, step by step; see trace.hpp.
#include "runtime/trace.hpp"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "runtime/error.hpp"
#include "runtime/registry.hpp"

namespace millrace {
namespace {

using Json = nlohmann::json;

Json parse(const std::string& text, std::string_view where) {
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) throw UserError(fmt::format("{}: this is no valid JSON.", where));
  return json;
}

std::string range_text(double low, double high) { return fmt::format("{:g} to {:g}", low, high); }

/// A JSON value as one 32-bit word of `type`.
std::uint32_t word_of(const Json& value, FieldType type, double low, double high, const std::string& what) {
  const bool integer = type != FieldType::kFloat;
  if (!value.is_number() || (integer && !value.is_number_integer())) {
    throw UserError(fmt::format("{}: {} is wanted, {} is allowed.", what, integer ? "an integer" : "a number",
                                range_text(low, high)));
  }
  const double number = value.get<double>();
  if (!std::isfinite(number) || number < low || number > high || std::abs(number) > 3.4028234e38) {
    throw UserError(fmt::format("{}: {} is out of range; allowed is {}.", what, value.dump(), range_text(low, high)));
  }
  if (type == FieldType::kFloat) return std::bit_cast<std::uint32_t>(static_cast<float>(number));
  if (type == FieldType::kInt32) return static_cast<std::uint32_t>(static_cast<std::int32_t>(number));
  return static_cast<std::uint32_t>(number);
}

std::string names_of(const std::vector<FieldDescription>& fields) {
  std::string names;
  for (const FieldDescription& field : fields) names += (names.empty() ? "" : ", ") + field.name;
  return names;
}

/// Refuses members of `object` that no field has.
void check_names(const Json& object, const std::vector<FieldDescription>& fields, std::string_view where) {
  for (const auto& [name, value] : object.items()) {
    bool known = false;
    for (const FieldDescription& field : fields) known = known || field.name == name;
    if (!known) throw UserError(fmt::format("{}: there is no field \"{}\"; there are {}.", where, name, names_of(fields)));
  }
}

std::vector<std::byte> config_bytes(const EnvironmentDescription& environment, const std::optional<std::string>& text) {
  std::vector<EnvParameter> params;
  if (text) {
    const Json json = parse(*text, "--params");
    if (!json.is_object()) throw UserError("--params: a JSON object is wanted, for instance {\"gravity\": 9.8}.");
    check_names(json, environment.config_fields, "--params");
    for (const FieldDescription& field : environment.config_fields) {
      if (!json.contains(field.name)) continue;
      const Json& value = json[field.name];
      const std::string what = "--params: " + field.name;
      EnvParameter parameter{field.name, ParameterType::kFloat, 0.0};
      if (field.type == FieldType::kBool) {
        if (!value.is_boolean()) throw UserError(fmt::format("{}: true or false is wanted.", what));
        parameter.type = ParameterType::kBool;
        parameter.value = value.get<bool>() ? 1.0 : 0.0;
      } else {
        const std::uint32_t word = word_of(value, field.type, field.low, field.high, what);
        parameter.type = field.type == FieldType::kFloat ? ParameterType::kFloat : ParameterType::kInt;
        parameter.value = field.type == FieldType::kFloat ? static_cast<double>(std::bit_cast<float>(word))
                                                          : static_cast<double>(static_cast<std::int32_t>(word));
      }
      params.push_back(parameter);
    }
  }
  return make_environment_config(environment, params);
}

std::vector<std::uint32_t> state_words(const EnvironmentDescription& environment, const Json& json,
                                       const std::string& where) {
  if (!json.is_object()) {
    throw UserError(fmt::format("{}: a JSON object with {} is wanted.", where, names_of(environment.state_fields)));
  }
  check_names(json, environment.state_fields, where);
  std::vector<std::uint32_t> words(static_cast<std::size_t>(environment.state_words));
  for (const FieldDescription& field : environment.state_fields) {
    const std::string what = fmt::format("{}: {}", where, field.name);
    if (!json.contains(field.name)) throw UserError(fmt::format("{} is missing.", what));
    const Json& value = json[field.name];
    const std::size_t first = field.offset / 4;
    if (!field.is_array) {
      words[first] = word_of(value, field.type, field.low, field.high, what);
      continue;
    }
    if (!value.is_array() || value.size() != static_cast<std::size_t>(field.count)) {
      throw UserError(fmt::format("{}: a list of {} numbers is wanted.", what, field.count));
    }
    for (std::size_t i = 0; i < value.size(); ++i) {
      words[first + i] = word_of(value[i], field.type, field.low, field.high, fmt::format("{}[{}]", what, i));
    }
  }
  return words;
}

/// One agent's action as words.
void append_action(const EnvironmentDescription& environment, int num_actions, const Json& json,
                   const std::string& what, std::vector<std::uint32_t>& words) {
  if (environment.is_discrete) {
    words.push_back(word_of(json, FieldType::kInt32, 0.0, num_actions - 1, what));
    return;
  }
  if (!json.is_array() || json.size() != environment.action_fields.size()) {
    throw UserError(fmt::format("{}: a list of {} numbers is wanted.", what, environment.action_fields.size()));
  }
  for (std::size_t i = 0; i < json.size(); ++i) {
    const ComponentDescription& range = environment.action_fields[i];
    words.push_back(word_of(json[i], FieldType::kFloat, range.low, range.high, fmt::format("{}[{}]", what, i)));
  }
}

/// All agents' actions of one step, agent after agent.
std::vector<std::uint32_t> action_words(const EnvironmentDescription& environment, int num_actions, const Json& json,
                                        const std::string& what) {
  std::vector<std::uint32_t> words;
  if (environment.num_agents == 1) {
    append_action(environment, num_actions, json, what, words);
    return words;
  }
  if (!json.is_array() || json.size() != static_cast<std::size_t>(environment.num_agents)) {
    throw UserError(fmt::format("{}: a list of {} actions is wanted, one for each agent.", what, environment.num_agents));
  }
  for (std::size_t a = 0; a < json.size(); ++a) {
    append_action(environment, num_actions, json[a], fmt::format("{}[{}]", what, a), words);
  }
  return words;
}

/// The shortest text that reads back as the same float; JSON has no infinity and no NaN.
std::string text_of(float value) { return std::isfinite(value) ? fmt::format("{}", value) : "null"; }

std::string text_of(std::uint32_t word, FieldType type) {
  if (type == FieldType::kFloat) return text_of(std::bit_cast<float>(word));
  if (type == FieldType::kInt32) return fmt::format("{}", static_cast<std::int32_t>(word));
  return fmt::format("{}", word);
}

std::string image_text(const EnvironmentDescription& environment, const std::vector<std::uint32_t>& words) {
  std::string text = "[";
  int bit = 0;
  for (int c = 0; c < environment.channels; ++c) {
    text += c > 0 ? ",[" : "[";
    for (int y = 0; y < environment.height; ++y) {
      text += y > 0 ? ",[" : "[";
      for (int x = 0; x < environment.width; ++x, ++bit) {
        if (x > 0) text += ',';
        text += ((words[static_cast<std::size_t>(bit >> 5)] >> (bit & 31)) & 1u) != 0 ? '1' : '0';
      }
      text += ']';
    }
    text += ']';
  }
  return text + "]";
}

}  // namespace

Tracer::Tracer(const EnvironmentDescription& environment, const TraceOptions& options)
    : environment_(environment), options_(options), config_(config_bytes(environment, options.params)) {}

std::vector<std::uint32_t> Tracer::start_state() const {
  if (options_.state) return state_words(environment_, parse(*options_.state, "--state"), "--state");
  std::vector<std::uint32_t> state(static_cast<std::size_t>(environment_.state_words));
  environment_.rules.reset(config_.data(), options_.seed, options_.instance, 0, state.data());
  return state;
}

Tracer::StepResult Tracer::step(std::vector<std::uint32_t>& state, const std::vector<std::uint32_t>& action,
                                std::uint32_t count, std::int64_t episode_step) const {
  StepResult result;
  result.rewards.resize(static_cast<std::size_t>(environment_.num_agents));
  result.terminated = environment_.rules.step(config_.data(), options_.seed, options_.instance, count, state.data(),
                                              action.data(), result.rewards.data());
  const std::int32_t limit = environment_.rules.max_episode_steps(config_.data());
  result.truncated = limit > 0 && episode_step >= limit;
  return result;
}

std::string Tracer::line(const std::vector<std::uint32_t>& state, const StepResult* result) const {
  std::string text = "{\"state\":{";
  bool first = true;
  for (const FieldDescription& field : environment_.state_fields) {
    text += fmt::format("{}\"{}\":", first ? "" : ",", field.name);
    first = false;
    const std::size_t place = field.offset / 4;
    if (!field.is_array) {
      text += text_of(state[place], field.type);
      continue;
    }
    for (int i = 0; i < field.count; ++i) {
      text += (i > 0 ? "," : "[") + text_of(state[place + static_cast<std::size_t>(i)], field.type);
    }
    text += ']';
  }
  text += "},\"observation\":";
  const bool several = environment_.num_agents > 1;
  std::vector<std::uint32_t> words(static_cast<std::size_t>(environment_.observation_words));
  if (several) text += '[';
  for (int agent = 0; agent < environment_.num_agents; ++agent) {
    if (agent > 0) text += ',';
    environment_.rules.observe(config_.data(), state.data(), agent, words.data());
    if (environment_.is_image) {
      text += image_text(environment_, words);
      continue;
    }
    for (std::size_t i = 0; i < words.size(); ++i) {
      text += (i > 0 ? "," : "[") + text_of(std::bit_cast<float>(words[i]));
    }
    text += ']';
  }
  if (several) text += ']';
  if (result != nullptr) {
    text += ",\"reward\":";
    if (several) text += '[';
    for (std::size_t a = 0; a < result->rewards.size(); ++a) text += (a > 0 ? "," : "") + text_of(result->rewards[a]);
    if (several) text += ']';
    text += fmt::format(",\"terminated\":{},\"truncated\":{}", result->terminated, result->truncated);
  }
  return text + "}";
}

void Tracer::episode(const std::string& actions, const LineSink& sink) {
  const Json list = parse(actions, "--actions");
  if (!list.is_array()) throw UserError("--actions: a JSON list is wanted, for instance [0, 1, 1].");
  const int num_actions = environment_.rules.num_actions(config_.data());
  std::vector<std::uint32_t> state = start_state();
  // All actions are looked at before the first line, so that a mistake prints nothing.
  std::vector<std::vector<std::uint32_t>> steps;
  for (std::size_t i = 0; i < list.size(); ++i) {
    steps.push_back(action_words(environment_, num_actions, list[i], fmt::format("--actions[{}]", i)));
  }
  sink(line(state, nullptr));
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const StepResult result =
        step(state, steps[i], static_cast<std::uint32_t>(i), static_cast<std::int64_t>(i) + 1);
    sink(line(state, &result));
    if ((result.terminated || result.truncated) && i + 1 < steps.size()) {
      throw UserError(fmt::format("--actions: the episode ended with action {} of {}; give no more than that.", i + 1,
                                  steps.size()));
    }
  }
}

void Tracer::transitions(std::istream& input, std::string_view name, const LineSink& sink) {
  const int num_actions = environment_.rules.num_actions(config_.data());
  std::size_t number = 0;
  for (std::string text; std::getline(input, text);) {
    ++number;
    if (text.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string where = fmt::format("{}:{}", name, number);
    const Json json = parse(text, where);
    if (!json.is_object() || !json.contains("state") || !json.contains("action") || json.size() != 2) {
      throw UserError(fmt::format("{}: an object {{\"state\":...,\"action\":...}} is wanted.", where));
    }
    std::vector<std::uint32_t> state = state_words(environment_, json["state"], where + ": state");
    const auto action = action_words(environment_, num_actions, json["action"], where + ": action");
    // Each is the first step of an episode of its own.
    const StepResult result = step(state, action, 0, 1);
    sink(line(state, &result));
  }
}

}  // namespace millrace
