// A test environment that never ends by its rules: reward 1 at each step, the same observation always, and a
// time limit. The value of every state is 1 / (1 - gamma), which only right bootstrapping at the time limit
// can find.
#pragma once

#include "envs/environment.hpp"

namespace millrace {
inline namespace MILLRACE_ISA {

struct Endless {
  static constexpr const char* id = "TestEndless-v0";
  struct Config {
    float reward = 1.0f;
    std::int32_t max_episode_steps = 20;
  };
  struct State {
    std::int32_t age;
  };
  using Observation = VectorObservation<1>;
  using Action = DiscreteAction<2>;

  static constexpr auto config_fields = fields(
      field("reward", &Config::reward, -1e3, 1e3, "of every step"),
      field("max_episode_steps", &Config::max_episode_steps, 0, 1e9, "time limit in steps, 0 for none"));
  static constexpr auto state_fields = fields(field("age", &State::age, 0, 1e9, "steps taken"));
  static constexpr auto observation_fields = components(component("one", 1, 1));

  MILLRACE_FN static State reset(const Config&, Draws&) { return {0}; }
  MILLRACE_FN static Step step(const Config& config, State& state, Action, Draws&) {
    ++state.age;
    return {config.reward, false};
  }
  MILLRACE_FN static Observation observe(const Config&, const State&) { return {{1.0f}}; }
};

}  // namespace MILLRACE_ISA
}  // namespace millrace
