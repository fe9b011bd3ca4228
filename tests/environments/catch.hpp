// A test environment with an image: a ball falls from a random column of the top row, and a paddle in the
// bottom row catches it (return 1) or not (-1). The game of Mnih et al., "Recurrent models of visual
// attention", 2014.
#pragma once

#include "envs/environment.hpp"

namespace millrace {
inline namespace MILLRACE_ISA {

struct Catch {
  static constexpr const char* id = "TestCatch-v0";
  static constexpr int kRows = 10, kColumns = 5;
  struct Config {
    std::int32_t max_episode_steps = 0;
  };
  struct State {
    std::int32_t ball_x, ball_y, paddle;
  };
  using Observation = BitPlanes<1, kRows, kColumns>;
  using Action = DiscreteAction<3>;

  static constexpr auto config_fields = fields(
      field("max_episode_steps", &Config::max_episode_steps, 0, 1e9, "time limit in steps, 0 for none"));
  static constexpr auto state_fields =
      fields(field("ball_x", &State::ball_x, 0, kColumns - 1), field("ball_y", &State::ball_y, 0, kRows - 1),
             field("paddle", &State::paddle, 0, kColumns - 1));

  MILLRACE_FN static State reset(const Config&, Draws& draws) {
    return {as_integer(draws.below(kColumns)), 0, kColumns / 2};
  }
  MILLRACE_FN static Step step(const Config&, State& state, Action action, Draws&) {
    const std::int32_t moved = state.paddle + action.index - 1;
    state.paddle = moved < 0 ? 0 : moved >= kColumns ? kColumns - 1 : moved;
    ++state.ball_y;
    const bool landed = state.ball_y >= kRows - 1;
    return {landed ? (state.paddle == state.ball_x ? 1.0f : -1.0f) : 0.0f, landed};
  }
  MILLRACE_FN static Observation observe(const Config&, const State& state) {
    Observation image{};
    image.set(0, state.ball_y, state.ball_x);
    image.set(0, kRows - 1, state.paddle);
    return image;
  }
};

}  // namespace MILLRACE_ISA
}  // namespace millrace
