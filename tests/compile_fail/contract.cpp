// An environment that keeps the contract, and, for each CASE, one change that breaks it. check.cmake compiles it and looks
// for the message that names what is wrong.
#include <vector>

#include "envs/environment.hpp"

using namespace millrace;

#ifndef CASE
#define CASE 0
#endif

struct Broken {
#if CASE != 1
  static constexpr const char* id = "Broken-v0";
#endif
#if CASE != 2
  struct Config {
#if CASE == 16
    std::vector<int> list;
#endif
    std::int32_t max_episode_steps = 10;
  };
#endif
#if CASE != 3
  struct State {
#if CASE == 14
    std::vector<float> x;
#elif CASE == 15
    double x;
#else
    float x;
#endif
#if CASE == 9
    float forgotten;
#endif
  };
#endif
#if CASE == 17
  using Observation = float;
#elif CASE != 4
  using Observation = VectorObservation<1>;
#endif
#if CASE == 18
  using Action = int;
#elif CASE == 20
  using Action = ContinuousAction<1>;
#elif CASE != 5
  using Action = DiscreteAction<2>;
#endif
#if CASE == 19
  static constexpr int num_agents = 0;
#endif
#if CASE == 21
  static constexpr int num_agents = 2;
#endif
#if CASE != 2 && CASE != 7 && CASE != 16
  static constexpr auto config_fields =
      fields(field("max_episode_steps", &Config::max_episode_steps, 0, 1000));
#endif
#if CASE != 3 && CASE != 6 && CASE != 14 && CASE != 15
  static constexpr auto state_fields = fields(field("x", &State::x, -1, 1));
#endif
#if CASE == 13
  static constexpr auto observation_fields = components(component("x", -1, 1), component("y", -1, 1));
#elif CASE != 8
  static constexpr auto observation_fields = components(component("x", -1, 1));
#endif
#if CASE != 2 && CASE != 3 && CASE != 4 && CASE != 5
#if CASE == 10
  MILLRACE_FN static State reset(const Config&) { return {0.0f}; }
#else
  MILLRACE_FN static State reset(const Config&, Draws&) { return {}; }
#endif
#if CASE == 11
  MILLRACE_FN static float step(const Config&, State&, Action, Draws&) { return 0.0f; }
#else
  MILLRACE_FN static Step step(const Config&, State&, Action, Draws&) { return {0.0f, false}; }
#endif
#if CASE == 12
  MILLRACE_FN static float observe(const Config&, const State&) { return 0.0f; }
#elif CASE != 14 && CASE != 15 && CASE != 17
  MILLRACE_FN static Observation observe(const Config&, const State& state) { return {{state.x}}; }
#endif
#endif
};

static_assert(check_environment<Broken>());
int main() { return 0; }
