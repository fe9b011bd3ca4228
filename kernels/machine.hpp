// Which machine an environment is stepped on (one instance, or a vector of them), and loads and stores that look the
// same on both. Compiled for each instruction set.
#pragma once

#include <cstring>

#include "envs/environment.hpp"

namespace millrace {
inline namespace MILLRACE_ISA {

template <class Lane, class Word>
MILLRACE_FN Lane load_lane(const Word* p) {
  if constexpr (sizeof(Lane) == sizeof(std::uint32_t)) {
    Lane lane;
    std::memcpy(&lane, p, sizeof(Lane));
    return lane;
  } else {
    return Lane::load(p);
  }
}
template <class Lane, class Word>
MILLRACE_FN void store_lane(Word* p, Lane lane) {
  if constexpr (sizeof(Lane) == sizeof(std::uint32_t)) {
    std::memcpy(p, &lane, sizeof(Lane));
  } else {
    lane.store(p);
  }
}

/// The vector machine where E is written for both, and vectors are wanted; else one instance at a time.
template <class E, bool Vectors>
struct MachineFor {
  using Machine = Scalar;
  using Rules = E;
};
template <class E>
  requires requires { typename E::template On<Vector>; }
struct MachineFor<E, true> {
  using Machine = Vector;
  using Rules = typename E::template On<Vector>;
};

/// What a step of one lane group brought.
template <class M, int Agents>
struct Outcome {
  typename M::Real reward[Agents];
  typename M::Mask terminated;
};

/// One step of the rules on machine M, whatever the number of agents.
template <class R, class M, int Agents>
MILLRACE_FN Outcome<M, Agents> apply_rules(const typename R::Config& config, typename R::State& state,
                                           const typename R::Action (&actions)[Agents], DrawsOf<M>& draws) {
  Outcome<M, Agents> outcome;
  if constexpr (Agents == 1) {
    const auto result = R::step(config, state, actions[0], draws);
    outcome.reward[0] = result.reward;
    outcome.terminated = result.terminated;
  } else {
    const auto result = R::step(config, state, actions, draws);
    for (int a = 0; a < Agents; ++a) outcome.reward[a] = result.rewards[a];
    outcome.terminated = result.terminated;
  }
  return outcome;
}

template <class R, int Agents>
MILLRACE_FN typename R::Observation observe_agent(const typename R::Config& config, const typename R::State& state,
                                                  int agent) {
  if constexpr (Agents == 1) {
    (void)agent;
    return R::observe(config, state);
  } else {
    return R::observe(config, state, agent);
  }
}

}  // namespace MILLRACE_ISA
}  // namespace millrace
