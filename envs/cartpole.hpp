// CartPole-v1: a pole on a cart, pushed left or right (Barto, Sutton and Anderson, "Neuronlike adaptive elements that
// can solve difficult learning control problems", 1983). Rules of Gymnasium 1.x, explicit Euler.
#pragma once

#include "envs/environment.hpp"

namespace millrace {
inline namespace MILLRACE_ISA {

struct CartPoleConfig {
  float gravity = 9.8f;
  float masscart = 1.0f;
  float masspole = 0.1f;
  float length = 0.5f;
  float force_mag = 10.0f;
  float tau = 0.02f;
  float theta_threshold_radians = 0.20943951f;
  float x_threshold = 2.4f;
  float reset_bound = 0.05f;
  std::int32_t max_episode_steps = 500;
};

/// The rules on machine M; `CartPole` is the scalar one.
template <class M>
struct CartPoleOn {
  using Real = typename M::Real;
  template <class Machine>
  using On = CartPoleOn<Machine>;

  static constexpr const char* id = "CartPole-v1";
  static constexpr const char* summary = "Keep a pole upright on a cart by pushing the cart left or right.";
  static constexpr double solved_at = 475.0;

  using Config = CartPoleConfig;
  struct State {
    Real x, x_dot, theta, theta_dot;
  };
  using Observation = VectorObservation<4, Real>;
  using Action = DiscreteAction<2, typename M::Integer>;

  static constexpr auto config_fields = fields(
      field("gravity", &Config::gravity, 0.0, 1000.0, "m/s^2"),
      field("masscart", &Config::masscart, 1e-3, 1e3, "kg"),
      field("masspole", &Config::masspole, 1e-4, 1e3, "kg"),
      field("length", &Config::length, 1e-3, 1e3, "half the pole's length, m"),
      field("force_mag", &Config::force_mag, 0.0, 1e4, "N"),
      field("tau", &Config::tau, 1e-5, 1.0, "seconds between states"),
      field("theta_threshold_radians", &Config::theta_threshold_radians, 1e-3, 3.14159265, "the episode ends beyond"),
      field("x_threshold", &Config::x_threshold, 1e-3, 1e3, "the episode ends beyond, m"),
      field("reset_bound", &Config::reset_bound, 0.0, 1.0, "each state field starts uniform in +- this"),
      field("max_episode_steps", &Config::max_episode_steps, 0, 1e9, "time limit in steps, 0 for none"));
  static constexpr auto state_fields = fields(
      field("x", &State::x, -1e4, 1e4, "cart position, m"),
      field("x_dot", &State::x_dot, -1e4, 1e4, "cart velocity, m/s"),
      field("theta", &State::theta, -1e3, 1e3, "pole angle from upright, rad"),
      field("theta_dot", &State::theta_dot, -1e4, 1e4, "pole angular velocity, rad/s"));
  static constexpr auto observation_fields =
      components(component("x", -4.8, 4.8), component("x_dot", -kUnbounded, kUnbounded),
                 component("theta", -0.41887903, 0.41887903), component("theta_dot", -kUnbounded, kUnbounded));

  MILLRACE_FN static State reset(const Config& config, DrawsOf<M>& draws) {
    const float bound = config.reset_bound;
    State state;
    state.x = draws.uniform(-bound, bound);
    state.x_dot = draws.uniform(-bound, bound);
    state.theta = draws.uniform(-bound, bound);
    state.theta_dot = draws.uniform(-bound, bound);
    return state;
  }

  MILLRACE_FN static StepOf<M> step(const Config& config, State& state, Action action, DrawsOf<M>&) {
    const float inverse_mass = 1.0f / (config.masspole + config.masscart);
    const float pole_moment = config.masspole * config.length;
    const Real force = select(action.index == 1, config.force_mag, -config.force_mag);
    const auto [sin_theta, cos_theta] = sincos(state.theta);
    const Real spin = state.theta_dot * state.theta_dot;
    const Real push = fma(spin * pole_moment, sin_theta, force) * inverse_mass;
    const Real inertia =
        fma(cos_theta * (-config.masspole * inverse_mass), cos_theta, Real(4.0f / 3.0f)) * config.length;
    const Real theta_acc = fma(Real(config.gravity), sin_theta, -(cos_theta * push)) / inertia;
    const Real x_acc = fma(theta_acc * (-pole_moment * inverse_mass), cos_theta, push);

    const Real tau = config.tau;
    state.x = fma(tau, state.x_dot, state.x);
    state.x_dot = fma(tau, x_acc, state.x_dot);
    state.theta = fma(tau, state.theta_dot, state.theta);
    state.theta_dot = fma(tau, theta_acc, state.theta_dot);
    const typename M::Mask ended =
        (absolute(state.x) > config.x_threshold) | (absolute(state.theta) > config.theta_threshold_radians);
    return {1.0f, ended};
  }

  MILLRACE_FN static Observation observe(const Config&, const State& state) {
    return {{state.x, state.x_dot, state.theta, state.theta_dot}};
  }
};

using CartPole = CartPoleOn<Scalar>;

}  // namespace MILLRACE_ISA
}  // namespace millrace
