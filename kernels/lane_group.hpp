// A lane group: as many instances of one environment as machine M holds, in registers, and what happens to them in a
// step: rules, time limit, quarantine, statistics, automatic reset. Everything that steps environments goes through
// here, so that step, rollout and evaluation cannot drift apart. Compiled for each instruction set.
//
// Thread safety: a group is owned by one thread; groups of disjoint instances are independent.
#pragma once

#include <bit>
#include <limits>

#include "kernels/instances.hpp"
#include "kernels/machine.hpp"

namespace millrace {
inline namespace MILLRACE_ISA {

/// E: the environment; M: the machine; R: its rules on M.
template <class E, class M, class R>
class LaneGroup {
 public:
  using Traits = EnvironmentTraits<E>;
  using Config = typename E::Config;
  using State = typename R::State;
  using Observation = typename R::Observation;
  using Real = typename M::Real;
  using Integer = typename M::Integer;
  using Word = typename M::Word;
  using Mask = typename M::Mask;
  static constexpr int kAgents = Traits::num_agents;
  static constexpr int kStateWords = Traits::state_words;
  static constexpr int kObservationWords = Traits::observation_words;
  static constexpr int kActionWords = Traits::action_words;
  static_assert(sizeof(State) == sizeof(typename E::State) * M::width, "State has the same members on every machine");

  /// What the last step brought; observations are those before an automatic reset.
  struct Result {
    Outcome<M, kAgents> outcome;
    Mask truncated, quarantined, done;
    Observation final_observation[kAgents];
  };

  MILLRACE_FN LaneGroup(const Config& config, std::uint64_t key, std::uint32_t purpose, Word instance,
                        std::uint32_t* instances, const InstanceLayout& layout, int lane)
      : config_(config), key_(key), purpose_(purpose), instance_(instance), base_(instances + lane), layout_(layout) {
    static_assert(std::is_trivially_copyable_v<State>);
    for (int w = 0; w < kStateWords; ++w) set_word(w, load_lane<Word>(base_ + layout_.row(w)));
    step_count_ = load_lane<Word>(base_ + layout_.step_count());
    length_ = load_lane<Integer>(base_ + layout_.episode_length());
    for (int a = 0; a < kAgents; ++a) return_[a] = load_lane<Real>(base_ + layout_.episode_return(a));
  }

  MILLRACE_FN void save() const {
    for (int w = 0; w < kStateWords; ++w) store_lane(base_ + layout_.row(w), word(w));
    store_lane(base_ + layout_.step_count(), step_count_);
    store_lane(base_ + layout_.episode_length(), length_);
    for (int a = 0; a < kAgents; ++a) store_lane(base_ + layout_.episode_return(a), return_[a]);
  }

  [[nodiscard]] MILLRACE_FN Word step_count() const { return step_count_; }
  [[nodiscard]] MILLRACE_FN Word instance() const { return instance_; }
  [[nodiscard]] MILLRACE_FN Integer length() const { return length_; }
  [[nodiscard]] MILLRACE_FN Real episode_return(int agent) const { return return_[agent]; }
  [[nodiscard]] MILLRACE_FN Observation observe(int agent) const {
    return observe_agent<R, kAgents>(config_, state_, agent);
  }
  /// State as words: word w of every lane.
  [[nodiscard]] MILLRACE_FN Word word(int w) const {
    return load_lane<Word>(reinterpret_cast<const char*>(&state_) + static_cast<std::size_t>(w) * sizeof(Word));
  }

  /// First state of a life: step count 0.
  MILLRACE_FN void start(bool stagger) {
    step_count_ = Word(0u);
    DrawsOf<M> draws(key_, instance_, step_count_, purpose_ + kReset);
    state_ = R::reset(config_, draws);
    length_ = Integer(0);
    const std::int32_t limit = Traits::max_episode_steps(config_);
    if (stagger && limit > 1) {
      const auto block =
          philox4x32<Word>(instance_, step_count_, Word(purpose_ + kStagger), Word(0u), key_);
      length_ = as_integer(multiply_high(block.word0, static_cast<std::uint32_t>(limit)));
    }
    for (int a = 0; a < kAgents; ++a) return_[a] = Real(0.0f);
    store_lane(base_ + layout_.staggered(), select(length_ > Integer(0), Word(1u), Word(0u)));
    for (int a = 0; a < kAgents; ++a) {
      store_lane(base_ + layout_.held_action(a), Integer(0));
      store_lane(base_ + layout_.held_steps(a), Integer(0));
    }
  }

  /// Rules, time limit and quarantine; no reset yet.
  MILLRACE_FN void step(const typename R::Action (&actions)[kAgents], Result& result) {
    DrawsOf<M> draws(key_, instance_, step_count_, purpose_ + kNoise);
    result.outcome = apply_rules<R, M, kAgents>(config_, state_, actions, draws);
    step_count_ = step_count_ + 1u;
    length_ = length_ + 1;
    const std::int32_t limit = Traits::max_episode_steps(config_);
    result.truncated = length_ >= Integer(limit > 0 ? limit : std::numeric_limits<std::int32_t>::max());
    for (int a = 0; a < kAgents; ++a) result.final_observation[a] = observe(a);
    result.quarantined = !finite(result);
    result.done = result.outcome.terminated | result.truncated | result.quarantined;
    for (int a = 0; a < kAgents; ++a) return_[a] = return_[a] + result.outcome.reward[a];
  }

  /// Counts the episodes that ended, and resets those instances. Call it if any(result.done).
  MILLRACE_FN void finish(const Result& result) {
    const Word staggered = load_lane<Word>(base_ + layout_.staggered());
    const Mask counted = result.done & !result.quarantined & (staggered == Word(0u));
    add(layout_.completed(), select(counted, Word(1u), Word(0u)));
    add(layout_.completed_length(), select(counted, as_word(length_), Word(0u)));
    add(layout_.quarantined(), select(result.quarantined, Word(1u), Word(0u)));
    store_lane(base_ + layout_.staggered(), select(result.done, Word(0u), staggered));
    for (int a = 0; a < kAgents; ++a) {
      std::uint32_t* sum = base_ + layout_.completed_return(a);
      store_lane(sum, load_lane<Real>(sum) + select(counted, return_[a], Real(0.0f)));
      return_[a] = select(result.done, Real(0.0f), return_[a]);
      std::uint32_t* held = base_ + layout_.held_steps(a);
      store_lane(held, select(result.done, Integer(0), load_lane<Integer>(held)));
    }
    length_ = select(result.done, Integer(0), length_);
    DrawsOf<M> draws(key_, instance_, step_count_, purpose_ + kReset);
    const State fresh = R::reset(config_, draws);
    for (int w = 0; w < kStateWords; ++w) {
      const Word next =
          load_lane<Word>(reinterpret_cast<const char*>(&fresh) + static_cast<std::size_t>(w) * sizeof(Word));
      set_word(w, select(result.done, next, word(w)));
    }
  }

 private:
  MILLRACE_FN void set_word(int w, Word value) {
    store_lane(reinterpret_cast<char*>(&state_) + static_cast<std::size_t>(w) * sizeof(Word), value);
  }
  MILLRACE_FN void add(std::size_t row, Word value) {
    store_lane(base_ + row, load_lane<Word>(base_ + row) + value);
  }

  /// Whether every float of state, observation and reward is finite. One infinity or NaN makes their sum infinite or
  /// NaN; only if it is, each is looked at (a sum of large finite values may overflow). Two chains: one alone would be
  /// as slow as the rules.
  MILLRACE_FN Mask finite(const Result& result) const {
    const float infinity = std::numeric_limits<float>::infinity();
    Real even = result.outcome.reward[0];
    Real odd = Real(0.0f);
    bool is_even = false;
    for_each_real(result, [&](Real x) {
      if (is_even) {
        even = even + x;
      } else {
        odd = odd + x;
      }
      is_even = !is_even;
    });
    Mask good = absolute(even + odd) < Real(infinity);
    if (any(!good)) {
      Mask each = absolute(result.outcome.reward[0]) < Real(infinity);
      for_each_real(result, [&](Real x) { each = each & (absolute(x) < Real(infinity)); });
      good = each;
    }
    return good;
  }
  template <class Visit>
  MILLRACE_FN void for_each_real(const Result& result, Visit visit) const {
    constexpr typename Traits::FloatWords kFloats = Traits::float_words();
    for (int w = 0; w < kStateWords; ++w) {
      if (kFloats.word[w]) visit(as_real(word(w)));
    }
    for (int a = 0; a < kAgents; ++a) {
      if (a > 0) visit(result.outcome.reward[a]);
      if constexpr (!E::Observation::is_image) {
        for (int i = 0; i < kObservationWords; ++i) visit(result.final_observation[a].values[i]);
      }
    }
  }

  const Config& config_;
  std::uint64_t key_;
  std::uint32_t purpose_;
  Word instance_;
  std::uint32_t* base_;
  const InstanceLayout& layout_;
  State state_;
  Word step_count_;
  Integer length_;
  Real return_[kAgents];
};

/// Global indices of M::width consecutive instances.
template <class M>
MILLRACE_FN typename M::Word consecutive(std::uint32_t first) {
  alignas(64) std::uint32_t index[M::width];
  for (int l = 0; l < M::width; ++l) index[l] = first + static_cast<std::uint32_t>(l);
  return load_lane<typename M::Word>(index);
}

}  // namespace MILLRACE_ISA
}  // namespace millrace
