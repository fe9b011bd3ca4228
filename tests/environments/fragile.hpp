// A test environment, a noisy walk, that comes to a value that is not finite in one chosen instance, at one
// chosen step of its first episode: in a state field, in the reward, in the observation alone, or at the
// start. Which instance that is, its first random draw tells.
#pragma once

#include <limits>

#include "envs/environment.hpp"

namespace millrace {
inline namespace MILLRACE_ISA {

/// What breaks.
enum FragilePlant : std::int32_t {
  kPlantNothing = 0,
  kPlantState = 1,
  kPlantReward = 2,
  kPlantObservation = 3,
  kPlantReset = 4,  ///< the first state of an episode; at_step is 0
};

struct Fragile {
  static constexpr const char* id = "TestFragile-v0";
  struct Config {
    std::int32_t plant = kPlantNothing;
    std::int32_t target = -1;
    std::int32_t at_step = 5;
    std::int32_t max_episode_steps = 50;
  };
  struct State {
    std::int32_t identity, age;
    float position;
  };
  using Observation = VectorObservation<2>;
  using Action = DiscreteAction<2>;

  static constexpr auto config_fields = fields(
      field("plant", &Config::plant, 0, 4, "0 nothing, 1 state, 2 reward, 3 observation, 4 start"),
      field("target", &Config::target, -1, 16777216, "the instance whose first draw this is"),
      field("at_step", &Config::at_step, 0, 1e6, "of the episode"),
      field("max_episode_steps", &Config::max_episode_steps, 0, 1e9, "time limit in steps, 0 for none"));
  static constexpr auto state_fields =
      fields(field("identity", &State::identity, 0, 16777216, "the first draw"),
             field("age", &State::age, 0, 1e9, "steps taken"),
             field("position", &State::position, -10, 10, "walker"));
  static constexpr auto observation_fields =
      components(component("position", -10, 10), component("age", 0, kUnbounded));

  MILLRACE_FN static bool broken(const Config& config, const State& state, std::int32_t plant) {
    return config.plant == plant && state.identity == config.target && state.age == config.at_step;
  }
  MILLRACE_FN static State reset(const Config& config, Draws& draws) {
    State state;
    state.identity = as_integer(draws.bits() >> 8);
    state.age = 0;
    state.position = draws.uniform(-0.1f, 0.1f);
    if (broken(config, state, kPlantReset)) state.position = std::numeric_limits<float>::quiet_NaN();
    return state;
  }
  MILLRACE_FN static Step step(const Config& config, State& state, Action action, Draws& draws) {
    ++state.age;
    state.position += (action.index == 1 ? 0.1f : -0.1f) + draws.uniform(-0.1f, 0.1f);
    Step result{1.0f - absolute(state.position), absolute(state.position) > 1.0f};
    if (broken(config, state, kPlantState)) state.position = std::numeric_limits<float>::quiet_NaN();
    if (broken(config, state, kPlantReward)) result.reward = std::numeric_limits<float>::infinity();
    return result;
  }
  MILLRACE_FN static Observation observe(const Config& config, const State& state) {
    const bool bad = broken(config, state, kPlantObservation);
    return {{bad ? std::numeric_limits<float>::quiet_NaN() : state.position,
             0.02f * static_cast<float>(state.age)}};
  }
};

}  // namespace MILLRACE_ISA
}  // namespace millrace
