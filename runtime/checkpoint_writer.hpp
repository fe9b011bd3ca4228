// Writes checkpoints of a run in the background, so that training never waits for a disk: keeps the last few
// and the best.
//
// Invariant: an old file is removed only after a newer one is durable, so that a run killed at any moment
// leaves its last durable checkpoint readable. One writer for each folder.
//
// Thread safety: submit, flush, throw_if_failed and the getters may be called from any thread at once.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/checkpoint.hpp"
#include "runtime/checkpoint_folder.hpp"

namespace millrace {

struct CheckpointWriterOptions {
  /// Files `step_*.safetensors` that stay, at least 1.
  std::size_t keep_last = 3;
  /// Whether the checkpoint of the highest score stays as `best.safetensors`; of equal scores the first.
  bool keep_best = true;
  /// The step that this run goes on from, if it does. Files of later steps are then an abandoned branch, or
  /// damaged: they are removed as soon as the first new checkpoint is durable, so that they cannot pass for
  /// the latest.
  std::optional<std::uint64_t> resumed_step;
  /// Called on the writer's thread after each checkpoint, when it is durable and old ones are gone. An
  /// exception counts as a failed write.
  std::function<void(const std::filesystem::path& path, std::uint64_t step)> on_written;
};

class CheckpointWriter {
 public:
  /// Whether a submission may be skipped when a newer one arrives before its write has started.
  enum class Keep { kIfTimely, kAlways };

  struct Best {
    std::uint64_t step = 0;
    double score = 0.0;
  };

  /// Creates the folder, removes temporary files of dead writers, and takes stock of the checkpoints that are
  /// there (a valid best one keeps its place until it is beaten). Throws RunError if the folder cannot be
  /// made, UserError if it cannot be listed, std::invalid_argument for keep_last = 0.
  explicit CheckpointWriter(std::filesystem::path folder, CheckpointWriterOptions options = {});
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;
  /// Writes what is still waiting, then ends the thread. A failure that nobody asked for goes to stderr.
  ~CheckpointWriter();

  /// Hands a checkpoint over and returns at once. It is written as `step_%012llu.safetensors` with the
  /// metadata `step` and, if there is one, `score` (higher is better; NaN counts as none).
  /// While a write is running, a newer submission takes the place of a waiting one, except that one with
  /// Keep::kAlways is never dropped, nor the one that would become the best. So at most two dispensable
  /// checkpoints wait in memory.
  void submit(Checkpoint&& checkpoint, std::uint64_t step, std::optional<double> score = std::nullopt,
              Keep keep = Keep::kIfTimely);

  /// Waits until nothing is waiting or being written; then as throw_if_failed.
  void flush();

  /// If a write has failed since the last report: throws RunError with the first reason and the last good
  /// checkpoint. The writer itself goes on trying with later submissions. Does not wait.
  void throw_if_failed();

  /// The last checkpoint that this writer made durable.
  [[nodiscard]] std::optional<std::filesystem::path> last_written() const;
  [[nodiscard]] std::optional<Best> best() const;
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }

 private:
  struct Submission {
    Checkpoint checkpoint;
    std::uint64_t step;
    std::optional<double> score;
    Keep keep;
  };

  void take_stock();
  void drop_superseded();
  void run();
  std::optional<std::string> try_write(Submission submission);
  void write(const Submission& submission);
  void remove_old_files();
  [[nodiscard]] std::string last_good_sentence() const;

  const std::filesystem::path folder_;
  const CheckpointWriterOptions options_;

  // Touched by the constructor and then by the thread alone.
  std::vector<CheckpointFile> files_;      // in the order written
  std::vector<CheckpointFile> abandoned_;  // to be removed after the first write

  mutable std::mutex mutex_;  // guards all below but the thread
  std::condition_variable wake_;
  std::condition_variable idle_;
  std::deque<Submission> waiting_;
  std::optional<double> writing_score_;
  bool writing_ = false;
  bool stopping_ = false;
  std::optional<Best> best_;
  std::optional<std::filesystem::path> last_written_;
  std::optional<std::string> failure_;  // the first since the last report

  std::thread thread_;  // last: it uses all above
};

}  // namespace millrace
