// The complete description of an experiment as plain values. A member's initialiser is the key's default; the
// range, the meaning and the text form of each key are declared once, in config_schema.cpp.
//
// Invariant: a value that came from load_config or parse_config has passed every check of validate_config.
// Thread safety: plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace millrace {

enum class ParameterType { kFloat, kInt, kBool };

/// One field of an environment's Config after resolution. `value` is exact: a kFloat is a 32-bit float
/// widened, a kInt is an integer of at most 2^53, a kBool is 0 or 1.
struct EnvParameter {
  std::string name;
  ParameterType type = ParameterType::kFloat;
  double value = 0.0;
  bool operator==(const EnvParameter&) const = default;
};

/// `[env]`: which rules, and how many instances of them.
struct EnvConfig {
  std::string id;
  int num_envs = 2000;
  bool stagger = true;
  std::vector<EnvParameter> params;  // every field of the environment's Config, in its order
  bool operator==(const EnvConfig&) const = default;
};

/// `[algo]`: how is learnt. Steps are environment steps, of all instances together.
struct AlgoConfig {
  enum class Name { kPqn };
  enum class Optimizer { kRadam, kAdam, kSgd };
  enum class EpsilonMode { kShared, kPerInstance };
  enum class Compat { kNone, kPurejaxql };

  Name name = Name::kPqn;
  std::int64_t total_steps = 2'000'000;
  int num_steps = 16;
  int num_epochs = 2;
  int num_minibatches = 8;
  double gamma = 0.99;
  double lambda = 0.95;
  double reward_scale = 1.0;
  Optimizer optimizer = Optimizer::kRadam;
  double lr = 1e-3;
  double lr_end = 0.0;
  double lr_fraction = 1.0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double adam_eps = 1e-8;
  double momentum = 0.0;
  double max_grad_norm = 10.0;
  double epsilon_start = 1.0;
  double epsilon_end = 0.1;
  double epsilon_fraction = 0.4;
  EpsilonMode epsilon_mode = EpsilonMode::kShared;
  double epsilon_alpha = 7.0;
  int hold_max = 1;
  double hold_exponent = 2.0;
  double average_decay = 0.0;
  Compat compat = Compat::kNone;
  int shards = 8;
  bool operator==(const AlgoConfig&) const = default;
};

/// `[network]`: the Q-network between observation and action values.
struct NetworkConfig {
  enum class Activation { kRelu };
  enum class Init { kLecunNormal, kHeNormal };

  std::vector<int> hidden = {64, 64};
  bool layer_norm = true;
  Activation activation = Activation::kRelu;
  Init init = Init::kLecunNormal;
  bool operator==(const NetworkConfig&) const = default;
};

/// `[eval]`: greedy evaluations, which change nothing in training.
struct EvalConfig {
  int episodes = 200;
  std::int64_t every = 0;  // 0: see evaluation_interval
  bool only_at_end = false;
  std::optional<double> stop_at;
  std::optional<double> threshold;  // none: the environment's own
  bool operator==(const EvalConfig&) const = default;
};

/// `[run]`: where it runs and what it writes. None of these changes what is learnt, apart from `isa`.
struct RunConfig {
  enum class Isa { kAuto, kBaseline, kAvx2, kAvx512 };

  std::string device = "auto";  // auto, cpu, cuda, cuda:N
  int threads = 0;              // 0: all
  Isa isa = Isa::kAuto;
  bool pin = true;
  std::string runs_dir = "runs";
  std::int64_t log_every = 1;
  std::int64_t checkpoint_every = 0;  // 0: see checkpoint_interval
  int checkpoint_keep = 3;
  bool operator==(const RunConfig&) const = default;
};

struct ExperimentConfig {
  std::string experiment;
  std::uint64_t seed = 1;  // at most 2^63 - 1
  EnvConfig env;
  AlgoConfig algo;
  NetworkConfig network;
  EvalConfig eval;
  RunConfig run;
  bool operator==(const ExperimentConfig&) const = default;
};

/// Environment steps between two greedy evaluations, at least 1; none if they happen only at the end.
inline std::optional<std::int64_t> evaluation_interval(const ExperimentConfig& config) {
  if (config.eval.only_at_end) return std::nullopt;
  if (config.eval.every > 0) return config.eval.every;
  const std::int64_t twentieth = config.algo.total_steps / 20;
  return twentieth > 0 ? twentieth : 1;
}

/// Environment steps between two checkpoints, at least 1.
inline std::int64_t checkpoint_interval(const ExperimentConfig& config) {
  if (config.run.checkpoint_every > 0) return config.run.checkpoint_every;
  const std::int64_t tenth = config.algo.total_steps / 10;
  return tenth > 0 ? tenth : 1;
}

}  // namespace millrace
