// Pendulum-v1: a motor too weak to lift a pendulum swings it up and balances it. Rules of Gymnasium 1.x,
// semi-implicit Euler; the reference's torque in [-max_torque, max_torque] is taken from a grid of
// num_torques evenly spaced values.
#pragma once

#include "envs/angles.hpp"
#include "envs/environment.hpp"

namespace millrace {
inline namespace MILLRACE_ISA {

struct PendulumConfig {
  float g = 10.0f;
  float m = 1.0f;
  float l = 1.0f;
  float dt = 0.05f;
  float max_speed = 8.0f;
  float max_torque = 2.0f;
  float reset_theta = 3.1415927f;
  float reset_thetadot = 1.0f;
  std::int32_t num_torques = 5;
  std::int32_t max_episode_steps = 200;
};

/// The rules on machine M; `Pendulum` is the scalar one.
template <class M>
struct PendulumOn {
  using Real = typename M::Real;
  template <class Machine>
  using On = PendulumOn<Machine>;

  static constexpr const char* id = "Pendulum-v1";
  static constexpr const char* summary =
      "Swing a pendulum up and keep it upright, with one of a few torques.";
  /// The reference names no such return; -160 is what good policies reach.
  static constexpr double solved_at = -160.0;

  using Config = PendulumConfig;
  struct State {
    Real theta, thetadot;
  };
  using Observation = VectorObservation<3, Real>;
  /// Index i of n applies the torque max_torque * (2 i / (n - 1) - 1).
  using Action = DiscreteAction<65, typename M::Integer>;

  static constexpr auto config_fields = fields(
      field("g", &Config::g, 0.0, 1000.0, "gravity, m/s^2"), field("m", &Config::m, 1e-3, 1e3, "mass, kg"),
      field("l", &Config::l, 1e-3, 1e3, "length, m"),
      field("dt", &Config::dt, 1e-5, 1.0, "seconds between states"),
      field("max_speed", &Config::max_speed, 1e-3, 1e3, "rad/s"),
      field("max_torque", &Config::max_torque, 0.0, 1e3, "N m"),
      field("reset_theta", &Config::reset_theta, 0.0, 10.0, "the angle starts uniform in +- this"),
      field("reset_thetadot", &Config::reset_thetadot, 0.0, 1e3, "the velocity starts uniform in +- this"),
      field("num_torques", &Config::num_torques, 2, 65, "actions: evenly spaced torques"),
      field("max_episode_steps", &Config::max_episode_steps, 0, 1e9, "time limit in steps, 0 for none"));
  static constexpr auto state_fields =
      fields(field("theta", &State::theta, -1e4, 1e4, "angle from upright, rad; counts whole turns"),
             field("thetadot", &State::thetadot, -1e4, 1e4, "rad/s"));
  static constexpr auto observation_fields =
      components(component("cos_theta", -1, 1), component("sin_theta", -1, 1), component("thetadot", -8, 8));

  MILLRACE_FN static int num_actions(const Config& config) { return config.num_torques; }

  MILLRACE_FN static State reset(const Config& config, DrawsOf<M>& draws) {
    State state;
    state.theta = draws.uniform(-config.reset_theta, config.reset_theta);
    state.thetadot = draws.uniform(-config.reset_thetadot, config.reset_thetadot);
    return state;
  }

  MILLRACE_FN static StepOf<M> step(const Config& config, State& state, Action action, DrawsOf<M>&) {
    const float spacing = 2.0f * config.max_torque / static_cast<float>(config.num_torques - 1);
    const Real torque = fma(to_real(action.index), Real(spacing), Real(-config.max_torque));
    const Real angle = wrap_angle(state.theta);
    // Costs belong to the state before the step.
    const Real effort = fma(state.thetadot * 0.1f, state.thetadot, torque * torque * 0.001f);
    const Real cost = fma(angle, angle, effort);

    const float lift = 3.0f * config.g / (2.0f * config.l);
    const float lever = 3.0f / (config.m * config.l * config.l);
    const Real acceleration = fma(sincos(state.theta).sin, Real(lift), torque * lever);
    state.thetadot =
        clamp(fma(acceleration, Real(config.dt), state.thetadot), -config.max_speed, config.max_speed);
    state.theta = fma(state.thetadot, Real(config.dt), state.theta);
    const auto never = Real(0.0f) > 0.0f;
    return {-cost, never};
  }

  MILLRACE_FN static Observation observe(const Config&, const State& state) {
    const auto [sin_theta, cos_theta] = sincos(state.theta);
    return {{cos_theta, sin_theta, state.thetadot}};
  }
};

using Pendulum = PendulumOn<Scalar>;

}  // namespace MILLRACE_ISA
}  // namespace millrace
