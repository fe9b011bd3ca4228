// A run from configuration to summary: device, cell, run folder, metrics, checkpoints, progress, picture. What
// `rl_run train`, `resume` and `eval` do is here; the command line only parses and prints.
//
// Thread safety: one run at a time in a process; `interrupt` may be set by any thread or signal handler.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runtime/config.hpp"
#include "runtime/trainer.hpp"

namespace millrace {

struct RunOptions {
  bool quiet = false;          ///< no progress display
  bool picture = true;         ///< print the learning curve to standard error at the end
  std::optional<std::filesystem::path> run_dir;  ///< instead of a new folder below run.runs_dir
  double process_age_s = 0.0;  ///< counted into wall_s and seconds_at_threshold
};

/// How a run ended; the fields of summary.json.
struct RunSummary {
  std::string run_dir;
  std::uint64_t seed = 0;
  std::string env_id;
  int num_envs = 0;
  std::string device;
  int threads = 0;
  std::string isa;
  std::uint64_t steps = 0;
  std::int64_t updates = 0;
  double wall_s = 0.0;
  double train_s = 0.0;
  double steps_per_s = 0.0;  ///< steps / train_s
  double greedy_return_mean = 0.0;
  double greedy_return_std = 0.0;
  int greedy_episodes = 0;
  std::optional<std::uint64_t> first_step_at_threshold;
  std::optional<double> seconds_at_threshold;
  std::uint64_t quarantined = 0;
  std::string digest;
  Ending ending = Ending::kDone;
  std::string checkpoint;  ///< the last one
};

/// Trains from the start. Throws UserError before anything is written, RunError if it fails on the way.
[[nodiscard]] RunSummary train(const ExperimentConfig& config, const RunOptions& options,
                               const std::atomic<bool>& interrupt);

/// Goes on from the latest valid checkpoint of a run folder (or from the one given), in the same folder.
[[nodiscard]] RunSummary resume(const std::filesystem::path& run, const std::vector<std::string>& overrides,
                                const RunOptions& options, const std::atomic<bool>& interrupt);

struct EvaluationSummary {
  std::string checkpoint;
  std::string env_id;
  std::uint64_t seed = 0;
  std::uint64_t steps = 0;
  EvaluationResult result;
};

/// Greedy episodes of a checkpoint's policy. `episodes` and `seed` default to the run's own.
[[nodiscard]] EvaluationSummary evaluate_checkpoint(const std::filesystem::path& run_or_checkpoint,
                                                    std::optional<int> episodes, std::optional<std::uint64_t> seed);

/// The summary as one line of JSON.
[[nodiscard]] std::string to_json(const RunSummary& summary);
/// {"runs": [...], "iqm": ..., "ci95": [low, high]} over the greedy returns.
[[nodiscard]] std::string to_json(const std::vector<RunSummary>& summaries);
[[nodiscard]] std::string to_json(const EvaluationSummary& summary);
/// Several seeds in one line: interquartile mean of the greedy returns, its 95 % interval, lowest and highest.
[[nodiscard]] std::string to_text(const std::vector<RunSummary>& summaries);

/// For --dry-run: the resolved configuration, then the memory plan as comments.
[[nodiscard]] std::string describe_plan(const ExperimentConfig& config);

}  // namespace millrace
