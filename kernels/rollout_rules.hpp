// What a rollout does with the instances of one machine M besides stepping them: actions, observations, flags
// and lambda-returns. Written once; the CPU's tiles (rollout.hpp) and the CUDA blocks (cuda/rollout.cuh) both
// call it.
//
// Thread safety: calls on disjoint lanes are independent.
#pragma once

#include "kernels/environment_kernels.hpp"
#include "kernels/machine.hpp"
#include "kernels/returns.hpp"

namespace millrace {
inline namespace MILLRACE_ISA {

/// Observation words, one row of `stride` words each.
template <class E, class Observation>
MILLRACE_FN void store_observation(std::uint32_t* place, int stride, const Observation& observation) {
  for (int i = 0; i < EnvironmentTraits<E>::observation_words; ++i) {
    if constexpr (E::Observation::is_image) {
      store_lane(place + static_cast<std::size_t>(i) * stride, observation.bits[i]);
    } else {
      store_lane(place + static_cast<std::size_t>(i) * stride, observation.values[i]);
    }
  }
}

/// The network's inputs, one row of `stride` floats each: pixels are 0 or 1.
template <class E, class Observation>
MILLRACE_FN void store_inputs(float* x, int stride, const Observation& observation) {
  for (int i = 0; i < E::Observation::size; ++i) {
    if constexpr (E::Observation::is_image) {
      x[static_cast<std::size_t>(i) * stride] =
          ((observation.bits[i >> 5] >> (i & 31)) & 1u) != 0 ? 1.0f : 0.0f;
    } else {
      store_lane(x + static_cast<std::size_t>(i) * stride, observation.values[i]);
    }
  }
}

/// TransitionFlag bits of a LaneGroup's result.
template <class M, class Result>
MILLRACE_FN typename M::Word flags_of(const Result& result) {
  using Word = typename M::Word;
  return select(result.outcome.terminated, Word(kTerminated), Word(0u)) |
         select(result.truncated, Word(kTruncated), Word(0u)) |
         select(result.quarantined, Word(kQuarantined), Word(0u));
}

template <class M>
struct Choice {
  typename M::Integer action;
  typename M::Real value;
};

/// argmax and max over the rows of q, `stride` floats apart; the first of equal ones.
template <class M>
MILLRACE_FN Choice<M> greedy(const float* q, int stride, int num_actions) {
  using Real = typename M::Real;
  using Integer = typename M::Integer;
  Choice<M> best{Integer(0), load_lane<Real>(q)};
  for (int i = 1; i < num_actions; ++i) {
    const Real value = load_lane<Real>(q + i * stride);
    const auto better = value > best.value;
    best.value = select(better, value, best.value);
    best.action = select(better, Integer(i), best.action);
  }
  return best;
}

/// Temporally extended epsilon-greedy (Dabney, Ostrovski and Barreto, "Temporally-extended epsilon-greedy
/// exploration", 2021): an exploring action is held for a random number of steps.
template <class M>
MILLRACE_FN typename M::Integer explore(const RolloutArguments& args, typename M::Word instance,
                                        typename M::Word step_count, int agent, int lane,
                                        typename M::Integer greedy_action) {
  using Word = typename M::Word;
  using Integer = typename M::Integer;
  using Mask = typename M::Mask;
  const auto block = philox4x32<Word>(instance, step_count, Word(kAction),
                                      Word(static_cast<std::uint32_t>(agent)), args.key);
  const Mask exploring = unit_real(block.word0) < load_lane<typename M::Real>(args.epsilon + lane);
  const Integer random = as_integer(multiply_high(block.word1, static_cast<std::uint32_t>(args.num_actions)));
  if (args.hold_max <= 1) return select(exploring, random, greedy_action);
  std::uint32_t* action_place = args.instances + args.layout.held_action(agent) + lane;
  std::uint32_t* steps_place = args.instances + args.layout.held_steps(agent) + lane;
  const Integer held = load_lane<Integer>(action_place);
  const Integer left = load_lane<Integer>(steps_place);
  const Mask holding = left > Integer(0);
  const Mask starting = exploring & !holding;
  Integer duration = Integer(1);
  if (any(starting)) {
    for (int j = 0; j + 1 < args.hold_max; ++j) {
      const Mask longer = block.word2 >= Word(args.hold_limits[j]);
      if (!any(starting & longer)) break;
      duration = duration + select(longer, Integer(1), Integer(0));
    }
  }
  const Integer action = select(holding, held, select(starting, random, greedy_action));
  store_lane(action_place, action);
  store_lane(steps_place, select(holding, left - 1, select(starting, duration - 1, Integer(0))));
  return action;
}

/// The lambda-returns of a chunk, of one agent of the instances at `lane`, from what lies in the trajectory.
template <class M>
MILLRACE_FN void store_returns(const RolloutArguments& args, int agent, int lane) {
  using Word = typename M::Word;
  using Real = typename M::Real;
  using Mask = typename M::Mask;
  const TrajectoryLayout& t = args.trajectory_layout;
  const ReturnRules rules{args.gamma, args.lambda, args.truncation_terminates, args.late_index};
  auto recursion =
      LambdaReturn<Real>::start(load_lane<Real>(args.trajectory + t.value(t.num_steps, agent) + lane));
  for (int k = t.num_steps - 1; k >= 0; --k) {
    const Word flags = load_lane<Word>(args.trajectory + t.flags(k) + lane);
    const Mask terminated = (flags & kTerminated) != Word(0u);
    const Mask truncated = (flags & kTruncated) != Word(0u);
    const Mask quarantined = (flags & kQuarantined) != Word(0u);
    const Real reward = load_lane<Real>(args.trajectory + t.reward(k, agent) + lane) * args.reward_scale;
    const Real target = recursion.take(rules, reward, terminated, truncated, quarantined,
                                       load_lane<Real>(args.trajectory + t.value(k, agent) + lane),
                                       load_lane<Real>(args.trajectory + t.final_value(k, agent) + lane),
                                       k == t.num_steps - 1);
    store_lane(args.trajectory + t.target(k, agent) + lane, target);
  }
}

}  // namespace MILLRACE_ISA
}  // namespace millrace
