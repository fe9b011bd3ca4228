// The training loop of one experiment on one cell: iterations, greedy evaluations, checkpoints, interruption. What is
// shown and written is the observer's business.
//
// Thread safety: one thread runs a trainer; `interrupt` may be set by any thread or signal handler.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "runtime/cell.hpp"
#include "runtime/config.hpp"

namespace millrace {

/// How far training has come. Steps are environment steps of all instances together.
struct Progression {
  std::int64_t iteration = 0;        ///< done
  std::uint64_t steps = 0;
  double train_s = 0.0;              ///< in rollout and learning
  double wall_s = 0.0;               ///< since the process (or, resumed, the first of them) started
  std::uint64_t evaluations = 0;
  double best_return = 0.0;          ///< of an evaluation; meaningless before the first
  std::uint64_t above_threshold = 0; ///< evaluations in a row that reached the threshold
  std::uint64_t above_stop = 0;      ///< evaluations in a row that reached eval.stop_at
  // The first of the running row of evaluations above the threshold.
  std::uint64_t row_step = 0;
  double row_s = 0.0;
  std::optional<std::uint64_t> first_step_at_threshold;
  std::optional<double> seconds_at_threshold;
  std::uint64_t quarantined = 0;
};

struct IterationReport {
  Progression at;
  ChunkStatistics statistics;
  double epsilon = 0.0;
  double learning_rate = 0.0;
  double steps_per_s = 0.0;  ///< since the last report
};

class TrainerObserver {
 public:
  TrainerObserver() = default;
  TrainerObserver(const TrainerObserver&) = delete;
  TrainerObserver& operator=(const TrainerObserver&) = delete;
  virtual ~TrainerObserver() = default;
  virtual void on_iteration(const IterationReport& report) = 0;
  virtual void on_evaluation(const Progression& at, const EvaluationResult& result) = 0;
  virtual void on_offence(const OffendingState& state) = 0;
  /// `final`: the run ends here (done or interrupted); must become durable.
  virtual void on_checkpoint(Checkpoint&& checkpoint, const Progression& at, std::optional<double> score,
                             bool final) = 0;
};

enum class Ending { kDone, kStopped, kInterrupted };

struct TrainingResult {
  Ending ending = Ending::kDone;
  Progression at;
  EvaluationResult last_evaluation;
  std::string digest;
};

class Trainer {
 public:
  /// `threshold`: the return that counts as solved, if there is one. `process_age_s`: how long before now the process
  /// started.
  Trainer(const ExperimentConfig& config, const EnvironmentDescription& environment, Cell& cell,
          TrainerObserver& observer, const std::atomic<bool>& interrupt, double process_age_s);

  /// Continues from a checkpoint of on_checkpoint(). Throws UserError if it does not fit.
  void resume(const Checkpoint& checkpoint);

  /// To the end, to eval.stop_at, or until `interrupt` is set.
  TrainingResult run();

 private:
  bool run_iteration();
  void evaluate();
  void write_checkpoint(bool final);
  [[nodiscard]] Checkpoint make_checkpoint() const;
  [[nodiscard]] double wall_s() const;
  [[nodiscard]] bool due(std::int64_t interval, std::uint64_t steps_before) const;

  const ExperimentConfig& config_;
  Cell& cell_;
  TrainerObserver& observer_;
  const std::atomic<bool>& interrupt_;
  std::optional<double> threshold_;
  double started_s_;  ///< on the steady clock
  Progression at_;
  EvaluationResult last_evaluation_;
  std::uint64_t last_evaluation_step_ = 0;
  bool evaluated_ = false;
  bool stop_ = false;
  double last_iteration_s_ = 0.0;
  double unreported_s_ = 0.0;
  std::uint64_t unreported_steps_ = 0;
};

/// Seconds on a clock that never goes back.
[[nodiscard]] double steady_seconds();
/// How long ago this process was started, in seconds.
[[nodiscard]] double process_age_seconds();

}  // namespace millrace
