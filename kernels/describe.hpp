// Describes an environment type E for the registry. Compiled once, without instruction-set flags.
//
// Thread safety: pure functions.
#pragma once

#include <cstring>
#include <type_traits>

#include "envs/environment.hpp"
#include "kernels/environment_kernels.hpp"

namespace millrace {
namespace detail {

template <class Owner, class Member>
FieldDescription describe_field(const Field<Owner, Member>& f) {
  using Word = std::remove_all_extents_t<Member>;
  Owner owner{};
  const auto* base = reinterpret_cast<const char*>(&owner);
  const auto* place = reinterpret_cast<const char*>(&(owner.*(f.member)));
  FieldDescription d;
  d.name = f.name;
  d.type = std::is_same_v<Word, float>          ? FieldType::kFloat
           : std::is_same_v<Word, std::int32_t> ? FieldType::kInt32
           : std::is_same_v<Word, bool>         ? FieldType::kBool
                                                : FieldType::kUint32;
  d.offset = static_cast<std::size_t>(place - base);
  d.is_array = std::is_array_v<Member>;
  d.count = static_cast<int>(sizeof(Member) / sizeof(Word));
  d.low = f.low;
  d.high = f.high;
  d.default_value = 0.0;
  if constexpr (!std::is_array_v<Member>) d.default_value = static_cast<double>(owner.*(f.member));
  d.doc = f.doc;
  return d;
}

template <class E>
EnvironmentRules rules_of() {
  using Traits = EnvironmentTraits<E>;
  using Config = typename E::Config;
  using State = typename E::State;
  EnvironmentRules r;
  r.reset = [](const void* config, std::uint64_t key, std::uint32_t instance, std::uint32_t step, void* state) {
    Draws draws(key, instance, step, kReset);
    const State fresh = E::reset(*static_cast<const Config*>(config), draws);
    std::memcpy(state, &fresh, sizeof(State));
  };
  r.step = [](const void* config, std::uint64_t key, std::uint32_t instance, std::uint32_t step, void* state,
              const void* actions, float* rewards) {
    Draws draws(key, instance, step, kNoise);
    State s;
    std::memcpy(&s, state, sizeof(State));
    bool terminated = false;
    if constexpr (Traits::num_agents == 1) {
      typename E::Action action;
      std::memcpy(&action, actions, sizeof(action));
      const Step result = E::step(*static_cast<const Config*>(config), s, action, draws);
      rewards[0] = result.reward;
      terminated = result.terminated;
    } else {
      typename E::Action all[Traits::num_agents];
      std::memcpy(all, actions, sizeof(all));
      const auto result = E::step(*static_cast<const Config*>(config), s, all, draws);
      for (int a = 0; a < Traits::num_agents; ++a) rewards[a] = result.rewards[a];
      terminated = result.terminated;
    }
    std::memcpy(state, &s, sizeof(State));
    return terminated;
  };
  r.observe = [](const void* config, const void* state, int agent, std::uint32_t* words) {
    State s;
    std::memcpy(&s, state, sizeof(State));
    typename E::Observation observation;
    if constexpr (Traits::num_agents == 1) {
      (void)agent;
      observation = E::observe(*static_cast<const Config*>(config), s);
    } else {
      observation = E::observe(*static_cast<const Config*>(config), s, agent);
    }
    std::memcpy(words, &observation, sizeof(observation));
  };
  r.max_episode_steps = [](const void* config) {
    return Traits::max_episode_steps(*static_cast<const Config*>(config));
  };
  r.num_actions = [](const void* config) { return Traits::num_actions(*static_cast<const Config*>(config)); };
  return r;
}

}  // namespace detail

/// The description of E, with `kernels` still empty.
template <class E>
EnvironmentDescription describe() {
  static_assert(check_environment<E>());
  using Traits = EnvironmentTraits<E>;
  EnvironmentDescription d;
  d.id = E::id;
  if constexpr (requires { E::summary; }) d.summary = E::summary;
  if constexpr (requires { E::solved_at; }) d.solved_at = E::solved_at;
  std::apply([&](const auto&... f) { (d.config_fields.push_back(detail::describe_field(f)), ...); }, E::config_fields);
  std::apply([&](const auto&... f) { (d.state_fields.push_back(detail::describe_field(f)), ...); }, E::state_fields);
  d.is_image = E::Observation::is_image;
  d.channels = d.height = d.width = 0;
  if constexpr (E::Observation::is_image) {
    d.channels = E::Observation::channels;
    d.height = E::Observation::height;
    d.width = E::Observation::width;
  } else {
    for (const Component& c : E::observation_fields) d.observation_fields.push_back({c.name, c.low, c.high, c.doc});
  }
  d.observation_size = E::Observation::size;
  d.observation_words = Traits::observation_words;
  d.is_discrete = E::Action::is_discrete;
  d.max_actions = 0;
  if constexpr (E::Action::is_discrete) {
    d.max_actions = E::Action::count;
  } else {
    for (const Component& c : E::action_fields) d.action_fields.push_back({c.name, c.low, c.high, c.doc});
  }
  d.action_words = Traits::action_words;
  d.num_agents = Traits::num_agents;
  d.state_words = Traits::state_words;
  const typename E::Config config{};
  d.default_config.resize(sizeof(config));
  std::memcpy(d.default_config.data(), &config, sizeof(config));
  d.rules = detail::rules_of<E>();
  return d;
}

}  // namespace millrace
