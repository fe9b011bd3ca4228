// How N environment instances lie in memory: one array of 32-bit words, row after row, each row a field of all
// instances with the instance index fastest. The same layout on every device, so that it can be copied and saved whole.
//
// Rows are padded to whole groups of 16 instances; the padding instances are stepped, and counted nowhere.
#pragma once

#include <cstddef>
#include <cstdint>

namespace millrace {

inline constexpr int kGroup = 16;  ///< instances that are stepped together

/// Number of instances after padding to whole groups.
constexpr int padded(int instances) { return (instances + kGroup - 1) / kGroup * kGroup; }

/// Where each field of an environment's instances lies. A plain value; `words` is the whole size.
struct InstanceLayout {
  int instances = 0;
  int stride = 0;        ///< words in a row
  int state_words = 0;   ///< rows 0 .. state_words-1 hold State, word by word
  int agents = 1;
  int rows = 0;

  constexpr InstanceLayout() = default;
  constexpr InstanceLayout(int num_instances, int words_of_state, int num_agents)
      : instances(num_instances),
        stride(padded(num_instances)),
        state_words(words_of_state),
        agents(num_agents),
        rows(words_of_state + 6 + 4 * num_agents) {}

  [[nodiscard]] constexpr std::size_t words() const { return static_cast<std::size_t>(rows) * stride; }

  [[nodiscard]] constexpr std::size_t row(int index) const { return static_cast<std::size_t>(index) * stride; }
  /// Steps that the instance has taken in its life: the counter of its random streams. uint32.
  [[nodiscard]] constexpr std::size_t step_count() const { return row(state_words); }
  /// Steps of the running episode. int32.
  [[nodiscard]] constexpr std::size_t episode_length() const { return row(state_words + 1); }
  // Since the statistics were last taken: completed episodes (uint32), the sum of their lengths (uint32), quarantined
  // steps (uint32), and whether the running episode began at a staggered step, so that it is not counted (uint32).
  [[nodiscard]] constexpr std::size_t completed() const { return row(state_words + 2); }
  [[nodiscard]] constexpr std::size_t completed_length() const { return row(state_words + 3); }
  [[nodiscard]] constexpr std::size_t quarantined() const { return row(state_words + 4); }
  [[nodiscard]] constexpr std::size_t staggered() const { return row(state_words + 5); }
  /// Return of the running episode, for each agent. float.
  [[nodiscard]] constexpr std::size_t episode_return(int agent) const { return row(state_words + 6 + agent); }
  /// Sum of the returns of the episodes counted in completed(), for each agent. float.
  [[nodiscard]] constexpr std::size_t completed_return(int agent) const {
    return row(state_words + 6 + agents + agent);
  }
  /// The exploring action that an agent holds (int32), and for how many more steps (int32).
  [[nodiscard]] constexpr std::size_t held_action(int agent) const {
    return row(state_words + 6 + 2 * agents + agent);
  }
  [[nodiscard]] constexpr std::size_t held_steps(int agent) const { return row(state_words + 6 + 3 * agents + agent); }
};

/// Bits of a transition's flags.
enum TransitionFlag : std::uint32_t {
  kTerminated = 1,   ///< the rules ended the episode
  kTruncated = 2,    ///< the time limit did
  kQuarantined = 4,  ///< a value was not finite: the instance was reset, and the transition counts nowhere
};

/// How a chunk of transitions lies in memory, as `[step][field][instance]` with rows of `stride` words: one block of
/// rows a step. Row `num_steps` holds the observations and values after the last step.
struct TrajectoryLayout {
  int stride = 0, num_steps = 0, agents = 1, observation_words = 0;
  int rows_per_step = 0;

  constexpr TrajectoryLayout() = default;
  constexpr TrajectoryLayout(int num_instances, int steps, int num_agents, int words_of_observation)
      : stride(padded(num_instances)),
        num_steps(steps),
        agents(num_agents),
        observation_words(words_of_observation),
        rows_per_step(num_agents * (words_of_observation + 5) + 1) {}

  [[nodiscard]] constexpr std::size_t words() const {
    return static_cast<std::size_t>(rows_per_step) * (num_steps + 1) * stride;
  }
  [[nodiscard]] constexpr std::size_t row(int step, int index) const {
    return (static_cast<std::size_t>(step) * rows_per_step + index) * stride;
  }
  [[nodiscard]] constexpr int rows_per_agent() const { return observation_words + 5; }
  /// First of `observation_words` rows.
  [[nodiscard]] constexpr std::size_t observation(int step, int agent) const {
    return row(step, agent * rows_per_agent());
  }
  [[nodiscard]] constexpr std::size_t action(int step, int agent) const {  ///< int32
    return row(step, agent * rows_per_agent() + observation_words);
  }
  [[nodiscard]] constexpr std::size_t reward(int step, int agent) const {  ///< float, as the environment gave it
    return row(step, agent * rows_per_agent() + observation_words + 1);
  }
  /// max over actions of Q at the step's observation. float.
  [[nodiscard]] constexpr std::size_t value(int step, int agent) const {
    return row(step, agent * rows_per_agent() + observation_words + 2);
  }
  /// The same at the final observation of an episode that was truncated at this step; else 0. float.
  [[nodiscard]] constexpr std::size_t final_value(int step, int agent) const {
    return row(step, agent * rows_per_agent() + observation_words + 3);
  }
  /// The lambda-return. float.
  [[nodiscard]] constexpr std::size_t target(int step, int agent) const {
    return row(step, agent * rows_per_agent() + observation_words + 4);
  }
  [[nodiscard]] constexpr std::size_t flags(int step) const {  ///< uint32, TransitionFlag
    return row(step, agents * rows_per_agent());
  }
};

}  // namespace millrace
