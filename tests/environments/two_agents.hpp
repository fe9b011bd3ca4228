// A test environment with two agents: each sees a sign of its own and its own number; the first should answer
// with the sign, the second with the opposite, and is rewarded twice as much. Both wrong at once ends the
// episode.
#pragma once

#include "envs/environment.hpp"

namespace millrace {
inline namespace MILLRACE_ISA {

struct TwoAgents {
  static constexpr const char* id = "TestTwoAgents-v0";
  static constexpr int num_agents = 2;
  struct Config {
    std::int32_t max_episode_steps = 10;
  };
  struct State {
    float sign[2];
    std::int32_t mistakes;
  };
  using Observation = VectorObservation<2>;
  using Action = DiscreteAction<2>;

  static constexpr auto config_fields = fields(
      field("max_episode_steps", &Config::max_episode_steps, 0, 1e9, "time limit in steps, 0 for none"));
  static constexpr auto state_fields = fields(field("sign", &State::sign, -1, 1, "that each agent sees"),
                                              field("mistakes", &State::mistakes, 0, 1e9));
  static constexpr auto observation_fields = components(component("sign", -1, 1), component("agent", -1, 1));

  MILLRACE_FN static void deal(State& state, Draws& draws) {
    for (int a = 0; a < num_agents; ++a) state.sign[a] = (draws.bits() >> 31) != 0 ? 1.0f : -1.0f;
  }
  MILLRACE_FN static State reset(const Config&, Draws& draws) {
    State state{};
    deal(state, draws);
    return state;
  }
  MILLRACE_FN static AgentsStep<2> step(const Config&, State& state, const Action (&actions)[2],
                                        Draws& draws) {
    const bool first = (actions[0].index == 1) == (state.sign[0] > 0.0f);
    const bool second = (actions[1].index == 1) == (state.sign[1] < 0.0f);
    state.mistakes += (first ? 0 : 1) + (second ? 0 : 1);
    deal(state, draws);
    return {{first ? 1.0f : 0.0f, second ? 2.0f : 0.0f}, !first && !second};
  }
  MILLRACE_FN static Observation observe(const Config&, const State& state, int agent) {
    return {{state.sign[agent], agent == 0 ? -1.0f : 1.0f}};
  }
};

}  // namespace MILLRACE_ISA
}  // namespace millrace
