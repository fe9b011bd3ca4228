// Stepping environment E on a CPU: with given or random actions, under an epsilon-greedy policy, and greedily for
// evaluation. Compiled for each instruction set; `make_kernels` fills the table.
//
// A tile of up to 64 instances goes through all steps of a chunk before the next one starts: its state, its
// observations and the network stay in the first-level cache, and no tile waits for another.
//
// Thread safety: calls on disjoint ranges of groups are independent.
#pragma once

#include <algorithm>

#include "kernels/environment_kernels.hpp"
#include "kernels/forward.hpp"
#include "kernels/lane_group.hpp"
#include "kernels/rollout_rules.hpp"

namespace millrace {
inline namespace MILLRACE_ISA {

template <class E, bool Vectors>
class Stepper {
  using M = typename MachineFor<E, Vectors>::Machine;
  using R = typename MachineFor<E, Vectors>::Rules;
  using Group = LaneGroup<E, M, R>;
  using Config = typename E::Config;
  using Action = typename R::Action;
  using Observation = typename R::Observation;
  using Real = typename M::Real;
  using Integer = typename M::Integer;
  using Word = typename M::Word;
  using Mask = typename M::Mask;
  static constexpr int kAgents = Group::kAgents;
  static constexpr int kObservationWords = Group::kObservationWords;
  static constexpr int kActionWords = Group::kActionWords;
  static constexpr int kTileGroups = kTile / kGroup;

 public:
  static void reset(const StepArguments& args, int first_group, int last_group, bool stagger) {
    for (int lane = first_group * kGroup; lane < last_group * kGroup; lane += M::width) {
      Group group = at(args, lane);
      group.start(stagger);
      group.save();
    }
  }

  static void observe(const StepArguments& args, int first_group, int last_group) {
    for (int lane = first_group * kGroup; lane < last_group * kGroup; lane += M::width) {
      const Group group = at(args, lane);
      for (int a = 0; a < kAgents; ++a) {
        store_observation<E>(args.observations + observation_row(args, a) + lane, args.layout.stride, group.observe(a));
      }
    }
  }

  static void step(const StepArguments& args, int first_group, int last_group) {
    // The loop without optional outputs is compiled apart: their tests alone cost it several percent.
    const bool lean = args.source == ActionSource::kRandom && args.final_observations == nullptr &&
                      args.rewards == nullptr && args.flags == nullptr;
    for (int lane = first_group * kGroup; lane < last_group * kGroup; lane += M::width) {
      if (lean) {
        step_lanes<true>(args, lane);
      } else {
        step_lanes<false>(args, lane);
      }
    }
  }

  static std::size_t scratch_bytes(const Network& network) {
    const std::size_t inputs = static_cast<std::size_t>(network.inputs) * kTile * (kAgents + 1);
    const std::size_t values = static_cast<std::size_t>(kAgents) * kTile * (network.outputs + 1);
    return (inputs + values + 2 * inference_floats(network)) * sizeof(float);
  }

  static void rollout(const RolloutArguments& args, int first_group, int last_group, void* scratch) {
    if constexpr (E::Action::is_discrete) {
      for (int g = first_group; g < last_group; g += kTileGroups) {
        rollout_tile(args, g * kGroup, (std::min(last_group, g + kTileGroups) - g) * kGroup,
                     static_cast<float*>(scratch));
      }
    }
  }

  static void evaluate(const EvaluationArguments& args, int first_group, int last_group, void* scratch) {
    if constexpr (E::Action::is_discrete) {
      for (int g = first_group; g < last_group; g += kTileGroups) {
        evaluate_tile(args, g * kGroup, (std::min(last_group, g + kTileGroups) - g) * kGroup,
                      static_cast<float*>(scratch));
      }
    }
  }

 private:
  static Group at(const StepArguments& args, int lane) {
    return Group(*static_cast<const Config*>(args.config), args.key, 0,
                 consecutive<M>(args.first_instance + static_cast<std::uint32_t>(lane)), args.instances, args.layout,
                 lane);
  }
  /// All steps of the M::width instances from `lane`; kLean: random actions, observations the only output.
  template <bool kLean>
  static void step_lanes(const StepArguments& args, int lane) {
    const int num_actions = EnvironmentTraits<E>::num_actions(*static_cast<const Config*>(args.config));
    const InstanceLayout layout = args.layout;
    const Config config = *static_cast<const Config*>(args.config);
    const std::uint64_t key = args.key;
    std::uint32_t* const observations = args.observations + lane;
    const int stride = layout.stride;
    Group group(config, key, 0, consecutive<M>(args.first_instance + static_cast<std::uint32_t>(lane)), args.instances,
                layout, lane);
    for (int k = 0; k < args.num_steps; ++k) {
      Action actions[kAgents];
      if (kLean || args.source == ActionSource::kRandom) {
        random_actions(group, key, num_actions, actions);
      } else {
        given_actions(args, k, lane, actions);
      }
      typename Group::Result result;
      group.step(actions, result);
      if (!kLean && args.final_observations != nullptr) {
        for (int a = 0; a < kAgents; ++a) {
          store_observation<E>(args.final_observations + observation_row(args, a) + lane, stride,
                            result.final_observation[a]);
        }
      }
      if (any(result.done)) {
        group.finish(result);
        for (int a = 0; a < kAgents; ++a) result.final_observation[a] = group.observe(a);
      }
      for (int a = 0; a < kAgents; ++a) {
        store_observation<E>(observations + static_cast<std::size_t>(a) * kObservationWords * stride, stride,
                          result.final_observation[a]);
        if (!kLean && args.rewards != nullptr) {
          store_lane(args.rewards + static_cast<std::size_t>(a) * stride + lane, result.outcome.reward[a]);
        }
      }
      if (!kLean && args.flags != nullptr) store_lane(args.flags + lane, flags_of<M>(result));
    }
    group.save();
  }

  static std::size_t observation_row(const StepArguments& args, int agent) {
    return static_cast<std::size_t>(agent) * kObservationWords * args.layout.stride;
  }
  static MILLRACE_FN void random_actions(const Group& group, std::uint64_t key, int num_actions,
                                         Action (&actions)[kAgents]) {
    for (int a = 0; a < kAgents; ++a) {
      const auto block = philox4x32<Word>(group.instance(), group.step_count(), Word(kAction),
                                          Word(static_cast<std::uint32_t>(a)), key);
      if constexpr (E::Action::is_discrete) {
        actions[a].index = as_integer(multiply_high(block.word1, static_cast<std::uint32_t>(num_actions)));
      } else {
        DrawsOf<M> draws(key, group.instance(), group.step_count(), kAction + (static_cast<std::uint32_t>(a) << 16));
        for (int i = 0; i < kActionWords; ++i) {
          const Component& range = E::action_fields[static_cast<std::size_t>(i)];
          actions[a].values[i] = draws.uniform(static_cast<float>(range.low), static_cast<float>(range.high));
        }
      }
    }
  }
  static MILLRACE_FN void given_actions(const StepArguments& args, int k, int lane, Action (&actions)[kAgents]) {
    const std::size_t block = static_cast<std::size_t>(kActionWords) * kAgents * args.layout.stride;
    for (int a = 0; a < kAgents; ++a) {
      for (int i = 0; i < kActionWords; ++i) {
        const std::uint32_t* place = args.actions + static_cast<std::size_t>(k) * block +
                                     (static_cast<std::size_t>(i) * kAgents + a) * args.layout.stride + lane;
        if constexpr (E::Action::is_discrete) {
          actions[a].index = load_lane<Integer>(place);
        } else {
          actions[a].values[i] = load_lane<Real>(place);
        }
      }
    }
  }

  static void rollout_tile(const RolloutArguments& args, int first_lane, int lanes, float* scratch) {
    const TrajectoryLayout& t = args.trajectory_layout;
    const Config& config = *static_cast<const Config*>(args.config);
    const std::size_t input_floats = static_cast<std::size_t>(args.network->inputs) * kTile;
    float* inputs = scratch;                             // [agent][input][kTile]
    float* final_inputs = inputs + kAgents * input_floats;  // [input][kTile]
    float* work = final_inputs + input_floats;
    float* final_work = work + inference_floats(*args.network);

    for (int lane = 0; lane < lanes; lane += M::width) {
      const Group group = make_group(args, config, first_lane + lane);
      for (int a = 0; a < kAgents; ++a) {
        const Observation observation = group.observe(a);
        store_observation<E>(args.trajectory + t.observation(0, a) + first_lane + lane, t.stride, observation);
        store_inputs<E>(inputs + static_cast<std::size_t>(a) * input_floats + lane, kTile, observation);
      }
    }
    for (int k = 0; k < t.num_steps; ++k) {
      for (int a = 0; a < kAgents; ++a) {
        const float* q = infer(*args.network, args.parameters, inputs + static_cast<std::size_t>(a) * input_floats,
                               lanes, work);
        for (int lane = 0; lane < lanes; lane += M::width) {
          const Group group = make_group(args, config, first_lane + lane);
          const Choice<M> best = greedy<M>(q + lane, kTile, args.num_actions);
          store_lane(args.trajectory + t.value(k, a) + first_lane + lane, best.value);
          store_lane(args.trajectory + t.action(k, a) + first_lane + lane,
                     explore<M>(args, group.instance(), group.step_count(), a, first_lane + lane, best.action));
        }
      }
      for (int lane = 0; lane < lanes; lane += kGroup) {
        step_group(args, config, k, first_lane, lane, inputs, final_inputs, final_work);
      }
    }
    for (int a = 0; a < kAgents; ++a) {
      const float* q = infer(*args.network, args.parameters, inputs + static_cast<std::size_t>(a) * input_floats,
                             lanes, work);
      for (int lane = 0; lane < lanes; lane += M::width) {
        store_lane(args.trajectory + t.value(t.num_steps, a) + first_lane + lane,
                   greedy<M>(q + lane, kTile, args.num_actions).value);
      }
      for (int lane = 0; lane < lanes; lane += M::width) store_returns<M>(args, a, first_lane + lane);
    }
  }

  static MILLRACE_FN Group make_group(const RolloutArguments& args, const Config& config, int lane) {
    return Group(config, args.key, 0, consecutive<M>(args.first_instance + static_cast<std::uint32_t>(lane)),
                 args.instances, args.layout, lane);
  }

  /// Steps the 16 instances from first_lane + lane, and values the final observations of truncated episodes.
  static void step_group(const RolloutArguments& args, const Config& config, int k, int first_lane, int lane,
                         float* inputs, float* final_inputs, float* final_work) {
    const TrajectoryLayout& t = args.trajectory_layout;
    const std::size_t input_floats = static_cast<std::size_t>(args.network->inputs) * kTile;
    alignas(64) std::uint32_t final_observation[kAgents][kObservationWords][kGroup] = {};
    bool truncated = false;
    for (int l = 0; l < kGroup; l += M::width) {
      const int place = first_lane + lane + l;
      Group group = make_group(args, config, place);
      Action actions[kAgents];
      for (int a = 0; a < kAgents; ++a) {
        actions[a].index = load_lane<Integer>(args.trajectory + t.action(k, a) + place);
      }
      typename Group::Result result;
      group.step(actions, result);
      for (int a = 0; a < kAgents; ++a) {
        store_lane(args.trajectory + t.reward(k, a) + place,
                   select(result.quarantined, Real(0.0f), result.outcome.reward[a]));
        store_lane(args.trajectory + t.final_value(k, a) + place, Real(0.0f));
      }
      store_lane(args.trajectory + t.flags(k) + place, flags_of<M>(result));
      const Mask cut = result.truncated & !result.outcome.terminated & !result.quarantined;
      if (any(cut)) {
        truncated = true;
        for (int a = 0; a < kAgents; ++a) {
          for (int i = 0; i < kObservationWords; ++i) {
            store_lane(&final_observation[a][i][l], select(cut, observation_word(result.final_observation[a], i), Word(0u)));
          }
        }
      }
      if (any(result.done)) {
        if (any(result.quarantined)) report(args, group, result, place);
        group.finish(result);
        for (int a = 0; a < kAgents; ++a) result.final_observation[a] = group.observe(a);
      }
      group.save();
      for (int a = 0; a < kAgents; ++a) {
        store_observation<E>(args.trajectory + t.observation(k + 1, a) + place, t.stride, result.final_observation[a]);
        store_inputs<E>(inputs + static_cast<std::size_t>(a) * input_floats + lane + l, kTile, result.final_observation[a]);
      }
    }
    if (truncated) value_final(args, k, first_lane + lane, final_observation, final_inputs, final_work);
  }

  static MILLRACE_FN Word observation_word(const Observation& observation, int i) {
    if constexpr (E::Observation::is_image) {
      return observation.bits[i];
    } else {
      return as_word(observation.values[i]);
    }
  }

  /// V of final observations, for the instances whose episode was truncated at step k.
  static void value_final(const RolloutArguments& args, int k, int place,
                          const std::uint32_t (&words)[kAgents][kObservationWords][kGroup], float* final_inputs,
                          float* final_work) {
    const TrajectoryLayout& t = args.trajectory_layout;
    for (int a = 0; a < kAgents; ++a) {
      for (int l = 0; l < kGroup; l += M::width) {
        Observation observation;
        for (int i = 0; i < kObservationWords; ++i) {
          if constexpr (E::Observation::is_image) {
            observation.bits[i] = load_lane<Word>(&words[a][i][l]);
          } else {
            observation.values[i] = load_lane<Real>(&words[a][i][l]);
          }
        }
        store_inputs<E>(final_inputs + l, kTile, observation);
      }
      const float* q = infer(*args.network, args.parameters, final_inputs, kGroup, final_work);
      for (int l = 0; l < kGroup; l += M::width) {
        const Word flags = load_lane<Word>(args.trajectory + t.flags(k) + place + l);
        const Mask cut = flags == Word(kTruncated);
        store_lane(args.trajectory + t.final_value(k, a) + place + l,
                   select(cut, greedy<M>(q + l, kTile, args.num_actions).value, Real(0.0f)));
      }
    }
  }

  /// Keeps the first offending state of a run.
  static void report(const RolloutArguments& args, const Group& group, const typename Group::Result& result,
                     int place) {
    if (args.offending_state == nullptr) return;
    alignas(64) std::uint32_t bad[M::width];
    store_lane(bad, select(result.quarantined, Word(1u), Word(0u)));
    for (int l = 0; l < M::width; ++l) {
      // Only a block's first one is kept, so that blocks do not race: one record for each 64 instances.
      std::uint32_t* record =
          args.offending_state + static_cast<std::size_t>(place / kTile) * (2 + Group::kStateWords);
      if (bad[l] == 0 || record[0] != 0 || place + l >= args.layout.instances) continue;
      record[0] = 1;
      record[1] = args.first_instance + static_cast<std::uint32_t>(place + l);
      for (int w = 0; w < Group::kStateWords; ++w) {
        alignas(64) std::uint32_t words[M::width];
        store_lane(words, group.word(w));
        record[2 + w] = words[l];
      }
    }
  }

  static void evaluate_tile(const EvaluationArguments& args, int first_lane, int lanes, float* scratch) {
    const Config& config = *static_cast<const Config*>(args.config);
    const std::size_t input_floats = static_cast<std::size_t>(args.network->inputs) * kTile;
    const InstanceLayout layout(kTile, Group::kStateWords, kAgents);
    alignas(64) std::uint32_t instances[static_cast<std::size_t>(Group::kStateWords + 6 + 4 * kAgents) * kTile] = {};
    bool running[kTile];
    int left = lanes;
    const auto make = [&](int lane) {
      return Group(config, args.key, kEvaluation,
                   consecutive<M>(args.first_instance + static_cast<std::uint32_t>(first_lane + lane)), instances,
                   layout, lane);
    };
    float* work = scratch + kAgents * input_floats;
    float* choices = work + inference_floats(*args.network);  // [agent][kTile], as integers
    for (int lane = 0; lane < lanes; lane += M::width) {
      Group group = make(lane);
      group.start(false);
      group.save();
      for (int a = 0; a < kAgents; ++a) {
        store_inputs<E>(scratch + static_cast<std::size_t>(a) * input_floats + lane, kTile, group.observe(a));
      }
    }
    for (int lane = 0; lane < lanes; ++lane) {
      running[lane] = first_lane + lane < args.num_episodes;
      if (!running[lane]) --left;
    }
    for (int k = 1; left > 0; ++k) {
      for (int a = 0; a < kAgents; ++a) {
        const float* q = infer(*args.network, args.parameters, scratch + static_cast<std::size_t>(a) * input_floats,
                               lanes, work);
        for (int lane = 0; lane < lanes; lane += M::width) {
          store_lane(choices + a * kTile + lane, greedy<M>(q + lane, kTile, args.num_actions).action);
        }
      }
      const bool last = args.max_steps > 0 && k >= args.max_steps;
      for (int lane = 0; lane < lanes; lane += M::width) {
        Group group = make(lane);
        Action actions[kAgents];
        for (int a = 0; a < kAgents; ++a) actions[a].index = load_lane<Integer>(choices + a * kTile + lane);
        typename Group::Result result;
        group.step(actions, result);
        if (last || any(result.done)) {
          left -= note_ends(args, group, result, instances, layout, first_lane, lane, last, running);
        }
        if (any(result.done)) {
          group.finish(result);
          for (int a = 0; a < kAgents; ++a) result.final_observation[a] = group.observe(a);
        }
        group.save();
        for (int a = 0; a < kAgents; ++a) {
          store_inputs<E>(scratch + static_cast<std::size_t>(a) * input_floats + lane, kTile, result.final_observation[a]);
        }
      }
    }
  }

  /// Writes down the first episodes that ended at this step; returns how many. `instances` are those before the step:
  /// a quarantined step's reward does not count.
  static int note_ends(const EvaluationArguments& args, const Group& group, const typename Group::Result& result,
                       const std::uint32_t* instances, const InstanceLayout& layout, int first_lane, int lane, bool all,
                       bool (&running)[kTile]) {
    alignas(64) std::uint32_t done[M::width];
    alignas(64) std::int32_t length[M::width];
    alignas(64) float sum[kAgents][M::width];
    store_lane(done, select(result.done, Word(1u), Word(0u)));
    store_lane(length, group.length());
    for (int a = 0; a < kAgents; ++a) {
      const Real before = load_lane<Real>(instances + layout.episode_return(a) + lane);
      store_lane(sum[a], select(result.quarantined, before, group.episode_return(a)));
    }
    int ended = 0;
    for (int l = 0; l < M::width; ++l) {
      if (!running[lane + l] || (done[l] == 0 && !all)) continue;
      running[lane + l] = false;
      ++ended;
      float total = 0.0f;
      for (int a = 0; a < kAgents; ++a) total += sum[a][l];
      args.returns[first_lane + lane + l] = total / static_cast<float>(kAgents);
      args.lengths[first_lane + lane + l] = length[l];
    }
    return ended;
  }
};

/// The table for E on the instruction set that this file is compiled for.
template <class E, bool Vectors>
constexpr EnvironmentKernels make_kernels(Isa isa) {
  using S = Stepper<E, Vectors>;
  return {isa,         MachineFor<E, Vectors>::Machine::width, &S::reset, &S::observe, &S::step, &S::rollout,
          &S::evaluate, &S::scratch_bytes};
}

}  // namespace MILLRACE_ISA
}  // namespace millrace
