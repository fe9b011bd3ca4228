// Acrobot-v1: two links hang from a fixed joint, with a motor between them; the tip has to swing above a line
// (Sutton, "Generalization in reinforcement learning: successful examples using sparse coarse coding", 1996).
// Rules of Gymnasium 1.x with the "book" equations: one Runge-Kutta step of the fourth order.
#pragma once

#include "envs/angles.hpp"
#include "envs/environment.hpp"

namespace millrace {
inline namespace MILLRACE_ISA {

struct AcrobotConfig {
  float dt = 0.2f;
  float gravity = 9.8f;
  float link_length_1 = 1.0f;
  float link_mass_1 = 1.0f;
  float link_mass_2 = 1.0f;
  float link_com_pos_1 = 0.5f;
  float link_com_pos_2 = 0.5f;
  float link_moi = 1.0f;
  float max_vel_1 = 12.566371f;
  float max_vel_2 = 28.274334f;
  float torque = 1.0f;
  float reset_bound = 0.1f;
  std::int32_t max_episode_steps = 500;
};

/// The rules on machine M; `Acrobot` is the scalar one.
template <class M>
struct AcrobotOn {
  using Real = typename M::Real;
  template <class Machine>
  using On = AcrobotOn<Machine>;

  static constexpr const char* id = "Acrobot-v1";
  static constexpr const char* summary = "Swing the tip of a two-link chain above a line.";
  static constexpr double solved_at = -100.0;

  using Config = AcrobotConfig;
  struct State {
    Real theta1, theta2, dtheta1, dtheta2;
  };
  using Observation = VectorObservation<6, Real>;
  /// The motor's torque, in units of Config::torque: index - 1.
  using Action = DiscreteAction<3, typename M::Integer>;

  static constexpr auto config_fields = fields(
      field("dt", &Config::dt, 1e-4, 1.0, "seconds between states"),
      field("gravity", &Config::gravity, 0.0, 1000.0, "m/s^2"),
      field("link_length_1", &Config::link_length_1, 1e-2, 100.0, "m"),
      field("link_mass_1", &Config::link_mass_1, 1e-2, 100.0, "kg"),
      field("link_mass_2", &Config::link_mass_2, 1e-2, 100.0, "kg"),
      field("link_com_pos_1", &Config::link_com_pos_1, 0.0, 100.0, "joint to centre of mass, m"),
      field("link_com_pos_2", &Config::link_com_pos_2, 0.0, 100.0, "joint to centre of mass, m"),
      field("link_moi", &Config::link_moi, 1e-2, 100.0, "moment of inertia of either link, kg m^2"),
      field("max_vel_1", &Config::max_vel_1, 1e-2, 100.0, "rad/s"),
      field("max_vel_2", &Config::max_vel_2, 1e-2, 100.0, "rad/s"),
      field("torque", &Config::torque, 0.0, 100.0, "of the motor, N m"),
      field("reset_bound", &Config::reset_bound, 0.0, 3.0, "each state field starts uniform in +- this"),
      field("max_episode_steps", &Config::max_episode_steps, 0, 1e9, "time limit in steps, 0 for none"));
  static constexpr auto state_fields =
      fields(field("theta1", &State::theta1, -1e3, 1e3, "first link from hanging down, rad"),
             field("theta2", &State::theta2, -1e3, 1e3, "second link from the first, rad"),
             field("dtheta1", &State::dtheta1, -100.0, 100.0, "rad/s"),
             field("dtheta2", &State::dtheta2, -100.0, 100.0, "rad/s"));
  static constexpr auto observation_fields =
      components(component("cos_theta1", -1, 1), component("sin_theta1", -1, 1),
                 component("cos_theta2", -1, 1), component("sin_theta2", -1, 1),
                 component("dtheta1", -12.566371, 12.566371), component("dtheta2", -28.274334, 28.274334));

  MILLRACE_FN static State reset(const Config& config, DrawsOf<M>& draws) {
    const float bound = config.reset_bound;
    State state;
    state.theta1 = draws.uniform(-bound, bound);
    state.theta2 = draws.uniform(-bound, bound);
    state.dtheta1 = draws.uniform(-bound, bound);
    state.dtheta2 = draws.uniform(-bound, bound);
    return state;
  }

  MILLRACE_FN static StepOf<M> step(const Config& config, State& state, Action action, DrawsOf<M>&) {
    const Real torque = (to_real(action.index) - 1.0f) * config.torque;
    const float half = config.dt * 0.5f;
    const State k1 = derivative(config, state, torque);
    const State k2 = derivative(config, moved(state, k1, half), torque);
    const State k3 = derivative(config, moved(state, k2, half), torque);
    const State k4 = derivative(config, moved(state, k3, config.dt), torque);
    const Real sixth = config.dt / 6.0f;
    const auto next = [&](Real y, Real a, Real b, Real c, Real d) {
      return fma(sixth, fma(Real(2.0f), b + c, a + d), y);
    };
    state.theta1 = wrap_angle(next(state.theta1, k1.theta1, k2.theta1, k3.theta1, k4.theta1));
    state.theta2 = wrap_angle(next(state.theta2, k1.theta2, k2.theta2, k3.theta2, k4.theta2));
    state.dtheta1 = clamp(next(state.dtheta1, k1.dtheta1, k2.dtheta1, k3.dtheta1, k4.dtheta1),
                          -config.max_vel_1, config.max_vel_1);
    state.dtheta2 = clamp(next(state.dtheta2, k1.dtheta2, k2.dtheta2, k3.dtheta2, k4.dtheta2),
                          -config.max_vel_2, config.max_vel_2);
    const auto first = sincos(state.theta1);
    const auto second = sincos(state.theta2);
    // The tip's height: -cos(theta1) - cos(theta1 + theta2).
    const Real cos_sum = fma(first.cos, second.cos, -(first.sin * second.sin));
    const auto above = -first.cos - cos_sum > 1.0f;
    return {select(above, Real(0.0f), Real(-1.0f)), above};
  }

  MILLRACE_FN static Observation observe(const Config&, const State& state) {
    const auto first = sincos(state.theta1);
    const auto second = sincos(state.theta2);
    return {{first.cos, first.sin, second.cos, second.sin, state.dtheta1, state.dtheta2}};
  }

 private:
  MILLRACE_FN static State moved(const State& y, const State& slope, float time) {
    const Real t = time;
    return {fma(t, slope.theta1, y.theta1), fma(t, slope.theta2, y.theta2), fma(t, slope.dtheta1, y.dtheta1),
            fma(t, slope.dtheta2, y.dtheta2)};
  }

  /// The time derivative of the state. The reference divides by d1 and by what is left of the second row;
  /// here both accelerations come from Cramer's rule, with one division:
  ///   d1 ddtheta1 + d2 ddtheta2 = -phi1,   d2 ddtheta1 + d3 ddtheta2 = rest
  MILLRACE_FN static State derivative(const Config& config, const State& s, Real torque) {
    const float m1 = config.link_mass_1, m2 = config.link_mass_2, l1 = config.link_length_1;
    const float lc1 = config.link_com_pos_1, lc2 = config.link_com_pos_2;
    const float coupling = m2 * l1 * lc2;
    const float d3 = m2 * lc2 * lc2 + config.link_moi;
    const float d1_constant = m1 * lc1 * lc1 + m2 * l1 * l1 + config.link_moi + d3;
    const auto [sin1, cos1] = sincos(s.theta1);
    const auto [sin2, cos2] = sincos(s.theta2);
    const Real d1 = fma(cos2, Real(2.0f * coupling), Real(d1_constant));
    const Real d2 = fma(cos2, Real(coupling), Real(d3));
    // sin(theta) is the reference's cos(theta - pi/2).
    const Real sin_sum = fma(sin1, cos2, cos1 * sin2);
    const Real phi2 = sin_sum * (m2 * lc2 * config.gravity);
    const Real swirl = sin2 * coupling;
    const Real spin = fma(Real(2.0f), s.dtheta1, s.dtheta2) * s.dtheta2;
    const Real phi1 = fma(-swirl, spin, fma(sin1, Real((m1 * lc1 + m2 * l1) * config.gravity), phi2));
    const Real rest = fma(-swirl, s.dtheta1 * s.dtheta1, torque - phi2);
    const Real scale = Real(1.0f) / fma(d1, Real(d3), -(d2 * d2));
    const Real acceleration1 = -fma(phi1, Real(d3), d2 * rest) * scale;
    const Real acceleration2 = fma(d1, rest, d2 * phi1) * scale;
    return {s.dtheta1, s.dtheta2, acceleration1, acceleration2};
  }
};

using Acrobot = AcrobotOn<Scalar>;

}  // namespace MILLRACE_ISA
}  // namespace millrace
