// The training loop; see trainer.hpp.
#include "runtime/trainer.hpp"

#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <mutex>
#include <sstream>
#include <thread>

#include "runtime/config_text.hpp"
#include "runtime/error.hpp"

namespace millrace {
namespace {

/// An iteration that takes longer than this is abandoned when an interruption comes, and the checkpoint is the one of
/// its beginning; a shorter one is finished.
constexpr double kLongIterationSeconds = 0.5;

constexpr double kNone = -1.0;

/// Cancels a cell's work when the interruption comes while the trainer waits for it.
class CancelOnInterrupt {
 public:
  CancelOnInterrupt(Cell& cell, const std::atomic<bool>& interrupt)
      : watcher_([this, &cell, &interrupt] {
          std::unique_lock lock(mutex_);
          while (!done_) {
            if (interrupt.load(std::memory_order_relaxed)) {
              cell.cancel();
              return;
            }
            wake_.wait_for(lock, std::chrono::milliseconds(20));
          }
        }) {}
  ~CancelOnInterrupt() {
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    wake_.notify_all();
    watcher_.join();
  }
  CancelOnInterrupt(const CancelOnInterrupt&) = delete;
  CancelOnInterrupt& operator=(const CancelOnInterrupt&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  bool done_ = false;
  std::thread watcher_;  // last: it uses all above
};

}  // namespace

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double process_age_seconds() {
  // Field 22 of /proc/self/stat: start time in clock ticks since boot. The command's name (field 2) may hold blanks.
  std::ifstream stat("/proc/self/stat");
  std::string text;
  std::getline(stat, text);
  const std::size_t end_of_name = text.rfind(')');
  if (end_of_name == std::string::npos) return 0.0;
  std::istringstream fields(text.substr(end_of_name + 1));
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;
  timespec now{};
  if (!fields || clock_gettime(CLOCK_BOOTTIME, &now) != 0) return 0.0;
  const double started = std::strtod(field.c_str(), nullptr) / static_cast<double>(sysconf(_SC_CLK_TCK));
  const double age = static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec) - started;
  return age > 0.0 ? age : 0.0;
}

Trainer::Trainer(const ExperimentConfig& config, const EnvironmentDescription& environment, Cell& cell,
                 TrainerObserver& observer, const std::atomic<bool>& interrupt, double process_age_s)
    : config_(config),
      cell_(cell),
      observer_(observer),
      interrupt_(interrupt),
      threshold_(config.eval.threshold ? config.eval.threshold : environment.solved_at),
      started_s_(steady_seconds() - process_age_s) {}

double Trainer::wall_s() const { return steady_seconds() - started_s_; }

bool Trainer::due(std::int64_t interval, std::uint64_t steps_before) const {
  const auto every = static_cast<std::uint64_t>(interval);
  return at_.steps / every != steps_before / every;
}

TrainingResult Trainer::run() {
  const std::int64_t iterations = num_iterations(config_);
  TrainingResult result;
  while (at_.iteration < iterations && !stop_) {
    if (interrupt_.load(std::memory_order_relaxed) || !run_iteration()) {
      result.ending = Ending::kInterrupted;
      break;
    }
  }
  if (result.ending != Ending::kInterrupted) {
    if (stop_) result.ending = Ending::kStopped;
    if (!evaluated_ || last_evaluation_step_ != at_.steps) evaluate();
  }
  at_.wall_s = wall_s();
  write_checkpoint(true);
  result.at = at_;
  result.last_evaluation = last_evaluation_;
  result.digest = cell_.digest();
  return result;
}

/// False if it was abandoned; the cell is then as before it.
bool Trainer::run_iteration() {
  const std::uint64_t steps_before = at_.steps;
  const double epsilon = epsilon_at(config_, at_.iteration);
  std::optional<Checkpoint> before;
  if (last_iteration_s_ > kLongIterationSeconds || at_.iteration == 0) before = make_checkpoint();
  const double start = steady_seconds();
  cell_.iterate(at_.iteration, epsilon);
  if (before) {
    const CancelOnInterrupt watch(cell_, interrupt_);
    cell_.synchronize();
  } else {
    cell_.synchronize();
  }
  if (before && interrupt_.load(std::memory_order_relaxed)) {
    cell_.load(*before);
    return false;
  }
  last_iteration_s_ = steady_seconds() - start;
  ++at_.iteration;
  const std::uint64_t chunk =
      static_cast<std::uint64_t>(config_.env.num_envs) * static_cast<std::uint64_t>(config_.algo.num_steps);
  at_.steps += chunk;
  at_.train_s += last_iteration_s_;
  unreported_s_ += last_iteration_s_;
  unreported_steps_ += chunk;

  if (at_.iteration % config_.run.log_every == 0 || at_.iteration == num_iterations(config_)) {
    IterationReport report;
    report.statistics = cell_.take_statistics();
    at_.quarantined += report.statistics.quarantined;
    at_.wall_s = wall_s();
    report.at = at_;
    report.epsilon = epsilon;
    report.learning_rate = learning_rate_at(config_, cell_.updates());
    report.steps_per_s = static_cast<double>(unreported_steps_) / unreported_s_;
    unreported_s_ = 0.0;
    unreported_steps_ = 0;
    observer_.on_iteration(report);
    if (report.statistics.quarantined > 0) {
      if (const auto state = cell_.take_offending_state()) observer_.on_offence(*state);
    }
  }
  if (const auto interval = evaluation_interval(config_); interval && due(*interval, steps_before)) evaluate();
  if (due(checkpoint_interval(config_), steps_before) && at_.iteration < num_iterations(config_) && !stop_) {
    write_checkpoint(false);
  }
  return true;
}

void Trainer::evaluate() {
  last_evaluation_ = cell_.evaluate(config_.seed, at_.evaluations, config_.eval.episodes);
  last_evaluation_step_ = at_.steps;
  at_.wall_s = wall_s();
  const double mean = last_evaluation_.return_mean;
  if (!evaluated_ || mean > at_.best_return) at_.best_return = mean;
  evaluated_ = true;
  ++at_.evaluations;
  if (threshold_ && mean >= *threshold_) {
    if (at_.above_threshold++ == 0) {
      at_.row_step = at_.steps;
      at_.row_s = at_.wall_s;
    }
    if (at_.above_threshold == 2 && !at_.first_step_at_threshold) {
      at_.first_step_at_threshold = at_.row_step;
      at_.seconds_at_threshold = at_.row_s;
    }
  } else {
    at_.above_threshold = 0;
  }
  if (config_.eval.stop_at) {
    at_.above_stop = mean >= *config_.eval.stop_at ? at_.above_stop + 1 : 0;
    if (at_.above_stop >= 2) stop_ = true;
  }
  observer_.on_evaluation(at_, last_evaluation_);
}

void Trainer::write_checkpoint(bool final) {
  std::optional<double> score;
  if (evaluated_ && last_evaluation_step_ == at_.steps) score = last_evaluation_.return_mean;
  observer_.on_checkpoint(make_checkpoint(), at_, score, final);
}

Checkpoint Trainer::make_checkpoint() const {
  Checkpoint checkpoint;
  cell_.save(checkpoint);
  const auto put_u64 = [&](const char* name, std::uint64_t value) { checkpoint.put<std::uint64_t>(name, value); };
  put_u64("progress.iteration", static_cast<std::uint64_t>(at_.iteration));
  put_u64("progress.steps", at_.steps);
  put_u64("progress.evaluations", at_.evaluations);
  put_u64("progress.above_threshold", at_.above_threshold);
  put_u64("progress.above_stop", at_.above_stop);
  put_u64("progress.row_step", at_.row_step);
  put_u64("progress.quarantined", at_.quarantined);
  put_u64("progress.first_step_at_threshold",
          at_.first_step_at_threshold.value_or(std::numeric_limits<std::uint64_t>::max()));
  put_u64("progress.last_evaluation_step",
          evaluated_ ? last_evaluation_step_ : std::numeric_limits<std::uint64_t>::max());
  const auto put_f64 = [&](const char* name, double value) { checkpoint.put<double>(name, value); };
  put_f64("progress.train_s", at_.train_s);
  put_f64("progress.wall_s", wall_s());
  put_f64("progress.row_s", at_.row_s);
  put_f64("progress.best_return", at_.best_return);
  put_f64("progress.seconds_at_threshold", at_.seconds_at_threshold.value_or(kNone));
  put_f64("progress.last_return_mean", last_evaluation_.return_mean);
  put_f64("progress.last_return_std", last_evaluation_.return_std);
  put_f64("progress.last_length_mean", last_evaluation_.length_mean);
  checkpoint.set_metadata("config", to_toml(config_));
  checkpoint.set_metadata("experiment", config_.experiment);
  checkpoint.set_metadata("env_id", config_.env.id);
  return checkpoint;
}

void Trainer::resume(const Checkpoint& checkpoint) {
  cell_.load(checkpoint);
  const auto u64 = [&](const char* name) { return checkpoint.get_scalar<std::uint64_t>(name); };
  const auto f64 = [&](const char* name) { return checkpoint.get_scalar<double>(name); };
  constexpr std::uint64_t kMissing = std::numeric_limits<std::uint64_t>::max();
  at_.iteration = static_cast<std::int64_t>(u64("progress.iteration"));
  at_.steps = u64("progress.steps");
  at_.evaluations = u64("progress.evaluations");
  at_.above_threshold = u64("progress.above_threshold");
  at_.above_stop = u64("progress.above_stop");
  at_.row_step = u64("progress.row_step");
  at_.quarantined = u64("progress.quarantined");
  at_.train_s = f64("progress.train_s");
  at_.row_s = f64("progress.row_s");
  at_.best_return = f64("progress.best_return");
  if (u64("progress.first_step_at_threshold") != kMissing) {
    at_.first_step_at_threshold = u64("progress.first_step_at_threshold");
    at_.seconds_at_threshold = f64("progress.seconds_at_threshold");
  }
  started_s_ -= f64("progress.wall_s");
  evaluated_ = u64("progress.last_evaluation_step") != kMissing;
  if (evaluated_) {
    last_evaluation_step_ = u64("progress.last_evaluation_step");
    last_evaluation_.episodes = config_.eval.episodes;
    last_evaluation_.return_mean = f64("progress.last_return_mean");
    last_evaluation_.return_std = f64("progress.last_return_std");
    last_evaluation_.length_mean = f64("progress.last_length_mean");
  }
  if (config_.eval.stop_at && at_.above_stop >= 2) stop_ = true;
}

}  // namespace millrace
