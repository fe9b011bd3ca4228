// What a run leaves behind and shows: the trainer's observer that writes metrics, checkpoints, progress and the learning
// curve.
//
// Thread safety: thread-compatible; one thread at a time for each object.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/checkpoint_writer.hpp"
#include "runtime/learning_curve.hpp"
#include "runtime/metrics_writer.hpp"
#include "runtime/progress.hpp"
#include "runtime/run.hpp"
#include "runtime/run_folder.hpp"
#include "runtime/trainer.hpp"

namespace millrace {

class RunRecorder final : public TrainerObserver {
 public:
  RunRecorder(const ExperimentConfig& config, const EnvironmentDescription& environment, const RunFolder& folder,
              const RunOptions& options, std::optional<std::uint64_t> resumed_step);

  void on_iteration(const IterationReport& report) override;
  void on_evaluation(const Progression& at, const EvaluationResult& result) override;
  void on_offence(const OffendingState& state) override;
  void on_checkpoint(Checkpoint&& checkpoint, const Progression& at, std::optional<double> score, bool final) override;

  /// Everything is durable afterwards. Throws RunError.
  void finish();
  /// Draws the learning curve into the run folder and, unless quiet, on standard error.
  void draw();
  /// The last checkpoint that was written.
  [[nodiscard]] std::string last_checkpoint() const;

 private:
  const ExperimentConfig& config_;
  const EnvironmentDescription& environment_;
  const RunFolder& folder_;
  const RunOptions& options_;
  Progress progress_;
  ProgressState state_;
  MetricsWriter metrics_;
  CheckpointWriter checkpoints_;
};

}  // namespace millrace
