// What can be done with an environment once its type is erased: a table of functions for each instruction set, and a
// description for people. Nothing here is inline, so that files for different instruction sets may share it.
//
// Thread safety: the tables are constant. Functions that take a range of groups may run at once on disjoint ranges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/instances.hpp"

namespace millrace {

enum class Isa { kReference = -1, kBaseline = 0, kAvx2 = 1, kAvx512 = 2 };

struct Network;  // kernels/network.hpp

/// Where a step gets its actions from.
enum class ActionSource {
  kGiven,   ///< `actions`, [action word][agent][instance]
  kRandom,  ///< uniform, from the instance's kAction stream
};

/// A run of steps without a policy, on groups [first_group, last_group).
struct StepArguments {
  const void* config;          ///< the environment's Config
  std::uint64_t key;           ///< experiment seed
  std::uint32_t first_instance;  ///< global index of instance 0
  InstanceLayout layout;
  std::uint32_t* instances;    ///< layout.words()
  int num_steps;
  ActionSource source;
  const std::uint32_t* actions;       ///< of each step, when given; num_steps blocks of [word][agent][stride]
  std::uint32_t* observations;        ///< [agent][word][stride], overwritten at each step; after an automatic reset
  std::uint32_t* final_observations;  ///< same shape, before it; null if not wanted
  float* rewards;                     ///< [agent][stride]; null if not wanted
  std::uint32_t* flags;               ///< [stride]; null if not wanted
};

/// A chunk under the epsilon-greedy policy, with its lambda-returns.
struct RolloutArguments {
  const void* config;
  std::uint64_t key;
  std::uint32_t first_instance;
  InstanceLayout layout;
  std::uint32_t* instances;
  TrajectoryLayout trajectory_layout;
  std::uint32_t* trajectory;
  const Network* network;
  const float* parameters;
  int num_actions;
  const float* epsilon;               ///< [stride]: each instance's own
  const std::uint32_t* hold_limits;   ///< [hold_max - 1]: 2^32 * P(duration <= j+1)
  int hold_max;
  float gamma, lambda, reward_scale;
  bool late_index;                    ///< compat: purejaxql
  bool truncation_terminates;         ///< compat: purejaxql
  std::uint32_t* offending_state;     ///< [1 + state_words]: flag and the first non-finite state of the tile; may be null
};

/// Greedy episodes: one for each instance, from its own reset, to its end.
struct EvaluationArguments {
  const void* config;
  std::uint64_t key;
  std::uint32_t first_instance;  ///< differs from evaluation to evaluation, so that episodes are fresh
  int num_episodes;
  int max_steps;                 ///< 0: the environment's own limit alone
  const Network* network;
  const float* parameters;
  int num_actions;
  float* returns;                ///< [padded(num_episodes)], mean over agents
  std::int32_t* lengths;         ///< [padded(num_episodes)]
};

/// One step of one instance, for tracing.
struct TraceResult {
  bool terminated, truncated, finite;
};

struct EnvironmentKernels {
  Isa isa;
  int width;  ///< instances in one vector instruction; 1 where the rules are scalar

  /// Instances' first states: step_count 0; with `stagger`, episodes begin at staggered lengths.
  void (*reset)(const StepArguments&, int first_group, int last_group, bool stagger);
  /// Observations of the present states.
  void (*observe)(const StepArguments&, int first_group, int last_group);
  void (*step)(const StepArguments&, int first_group, int last_group);
  /// `scratch`: rollout_scratch_bytes(network), 64-byte aligned.
  void (*rollout)(const RolloutArguments&, int first_group, int last_group, void* scratch);
  void (*evaluate)(const EvaluationArguments&, int first_group, int last_group, void* scratch);
  std::size_t (*rollout_scratch_bytes)(const Network&);
};

/// The scalar rules themselves, for tracing and listing; the same bits as every table.
struct EnvironmentRules {
  void (*reset)(const void* config, std::uint64_t key, std::uint32_t instance, std::uint32_t step, void* state);
  /// `action`: one Action for each agent. rewards: [agents].
  bool (*step)(const void* config, std::uint64_t key, std::uint32_t instance, std::uint32_t step, void* state,
               const void* actions, float* rewards);
  void (*observe)(const void* config, const void* state, int agent, std::uint32_t* words);
  std::int32_t (*max_episode_steps)(const void* config);
  int (*num_actions)(const void* config);
};

enum class FieldType { kFloat, kInt32, kUint32, kBool };

/// A named member of State or Config.
struct FieldDescription {
  std::string name;
  FieldType type;
  std::size_t offset;  ///< bytes
  int count;           ///< of an array; 1 for a scalar
  bool is_array;
  double low, high;
  double default_value;  ///< Config only
  std::string doc;
};

struct ComponentDescription {
  std::string name;
  double low, high;
  std::string doc;
};

/// Everything about an environment that does not depend on the instruction set.
struct EnvironmentDescription {
  std::string id, summary;
  std::optional<double> solved_at;
  std::vector<FieldDescription> config_fields, state_fields;
  std::vector<ComponentDescription> observation_fields;  ///< empty for an image
  std::vector<ComponentDescription> action_fields;       ///< empty for discrete actions
  bool is_image;
  int channels, height, width;  ///< of an image
  int observation_size;         ///< network inputs
  int observation_words;
  bool is_discrete;
  int max_actions;
  int action_words;
  int num_agents;
  int state_words;
  std::vector<std::byte> default_config;  ///< bytes of a default Config
  EnvironmentRules rules;
  std::vector<const EnvironmentKernels*> kernels;  ///< reference first, then one for each instruction set
};

}  // namespace millrace
