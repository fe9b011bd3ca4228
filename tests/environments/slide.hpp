// A test environment with continuous actions: a puck on a plane, pushed in two directions, ends outside the
// unit disc.
#pragma once

#include "envs/environment.hpp"

namespace millrace {
inline namespace MILLRACE_ISA {

struct Slide {
  static constexpr const char* id = "TestSlide-v0";
  struct Config {
    bool noisy = true;
    float friction = 0.1f;
    std::int32_t max_episode_steps = 30;
  };
  struct State {
    float place[2], speed[2];
    std::uint32_t bumps;
  };
  using Observation = VectorObservation<4>;
  using Action = ContinuousAction<2>;

  static constexpr auto config_fields = fields(
      field("noisy", &Config::noisy, 0, 1, "whether the wind blows"),
      field("friction", &Config::friction, 0, 1, "of the speed, per step"),
      field("max_episode_steps", &Config::max_episode_steps, 0, 1e9, "time limit in steps, 0 for none"));
  static constexpr auto state_fields =
      fields(field("place", &State::place, -2, 2), field("speed", &State::speed, -10, 10),
             field("bumps", &State::bumps, 0, 4294967295.0, "pushes of full strength"));
  static constexpr auto observation_fields = components(component("x", -2, 2), component("y", -2, 2),
                                                        component("vx", -10, 10), component("vy", -10, 10));
  static constexpr auto action_fields =
      components(component("push_x", -0.25, 0.5), component("push_y", 0.125, 0.25));

  MILLRACE_FN static State reset(const Config&, Draws& draws) {
    State state{};
    for (int i = 0; i < 2; ++i) state.place[i] = draws.uniform(-0.5f, 0.5f);
    return state;
  }
  MILLRACE_FN static Step step(const Config& config, State& state, Action action, Draws& draws) {
    float squares = 0.0f;
    for (int i = 0; i < 2; ++i) {
      const float wind = config.noisy ? draws.uniform(-0.01f, 0.01f) : 0.0f;
      state.speed[i] = fma(state.speed[i], 1.0f - config.friction, 0.1f * action.values[i]) + wind;
      state.place[i] = state.place[i] + state.speed[i];
      if (absolute(action.values[i]) > 0.24f) ++state.bumps;
      squares = fma(state.place[i], state.place[i], squares);
    }
    return {-squares, squares > 1.0f};
  }
  MILLRACE_FN static Observation observe(const Config&, const State& state) {
    return {{state.place[0], state.place[1], state.speed[0], state.speed[1]}};
  }
};

}  // namespace MILLRACE_ISA
}  // namespace millrace
