// MountainCar-v0: a car too weak for its hill swings back and forth to climb it (Moore, "Efficient
// memory-based learning for robot control", 1990). Rules of Gymnasium 1.x.
#pragma once

#include "envs/environment.hpp"

namespace millrace {
inline namespace MILLRACE_ISA {

struct MountainCarConfig {
  float min_position = -1.2f;
  float max_position = 0.6f;
  float max_speed = 0.07f;
  float goal_position = 0.5f;
  float goal_velocity = 0.0f;
  float force = 0.001f;
  float gravity = 0.0025f;
  float reset_low = -0.6f;
  float reset_high = -0.4f;
  std::int32_t max_episode_steps = 200;
};

/// The rules on machine M; `MountainCar` is the scalar one.
template <class M>
struct MountainCarOn {
  using Real = typename M::Real;
  template <class Machine>
  using On = MountainCarOn<Machine>;

  static constexpr const char* id = "MountainCar-v0";
  static constexpr const char* summary = "Swing an underpowered car up a hill.";
  static constexpr double solved_at = -110.0;

  using Config = MountainCarConfig;
  struct State {
    Real position, velocity;
  };
  using Observation = VectorObservation<2, Real>;
  /// 0 pushes left, 1 does not push, 2 pushes right.
  using Action = DiscreteAction<3, typename M::Integer>;

  static constexpr auto config_fields = fields(
      field("min_position", &Config::min_position, -100.0, 100.0, "the wall, which stops the car"),
      field("max_position", &Config::max_position, -100.0, 100.0, "the car gets no further"),
      field("max_speed", &Config::max_speed, 0.0, 100.0, "per step"),
      field("goal_position", &Config::goal_position, -100.0, 100.0, "the episode ends from here on"),
      field("goal_velocity", &Config::goal_velocity, -100.0, 100.0, "if the car is at least this fast"),
      field("force", &Config::force, 0.0, 100.0, "velocity that a push adds in a step"),
      field("gravity", &Config::gravity, 0.0, 100.0, "velocity that a vertical slope would add in a step"),
      field("reset_low", &Config::reset_low, -100.0, 100.0, "the position starts uniform from here"),
      field("reset_high", &Config::reset_high, -100.0, 100.0, "to here, at rest"),
      field("max_episode_steps", &Config::max_episode_steps, 0, 1e9, "time limit in steps, 0 for none"));
  static constexpr auto state_fields =
      fields(field("position", &State::position, -100.0, 100.0, "along the track; the valley is at -pi/6"),
             field("velocity", &State::velocity, -100.0, 100.0, "per step"));
  static constexpr auto observation_fields =
      components(component("position", -1.2, 0.6), component("velocity", -0.07, 0.07));

  MILLRACE_FN static State reset(const Config& config, DrawsOf<M>& draws) {
    return {draws.uniform(config.reset_low, config.reset_high), Real(0.0f)};
  }

  MILLRACE_FN static StepOf<M> step(const Config& config, State& state, Action action, DrawsOf<M>&) {
    const Real push = (to_real(action.index) - 1.0f) * config.force;
    const Real slope = sincos(state.position * 3.0f).cos;
    const Real velocity = fma(slope, Real(-config.gravity), state.velocity + push);
    const Real limited = clamp(velocity, -config.max_speed, config.max_speed);
    state.position = clamp(state.position + limited, config.min_position, config.max_position);
    const auto at_wall = (state.position == config.min_position) & (limited < 0.0f);
    state.velocity = select(at_wall, Real(0.0f), limited);
    const typename M::Mask home =
        (state.position >= config.goal_position) & (state.velocity >= config.goal_velocity);
    return {Real(-1.0f), home};
  }

  MILLRACE_FN static Observation observe(const Config&, const State& state) {
    return {{state.position, state.velocity}};
  }
};

using MountainCar = MountainCarOn<Scalar>;

}  // namespace MILLRACE_ISA
}  // namespace millrace
