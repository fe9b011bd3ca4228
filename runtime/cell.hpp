// A cell: one experiment's instances, network and optimiser on one device, and what is enqueued for them. The trainer
// drives it, whatever the device is.
//
// Same bits: the result of every call depends on the configuration and the calls before it, never on the number of
// workers. Thread safety: one thread drives a cell; `cancel` may be called from any.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/environment_kernels.hpp"
#include "kernels/network.hpp"
#include "runtime/checkpoint.hpp"
#include "runtime/config.hpp"
#include "runtime/device.hpp"

namespace millrace {

/// Statistics since they were last taken, over completed episodes; the running ones apart. Returns are as the
/// environment gives them (not scaled), and means over agents.
struct ChunkStatistics {
  std::uint64_t episodes = 0;
  double return_sum = 0.0;           ///< over completed episodes
  double length_sum = 0.0;
  std::uint64_t instances = 0;       ///< with at least one completed episode
  double instance_return_sum = 0.0;  ///< over those instances, of each one's mean return
  double running_return_mean = 0.0;  ///< of episodes in flight
  double running_length_mean = 0.0;
  std::uint64_t quarantined = 0;     ///< steps with a non-finite value
  double squared_error_mean = 0.0;   ///< of Q(s, a) - G over the samples of the last learning phase
  double value_mean = 0.0;           ///< of Q(s, a) over the same samples
};

struct EvaluationResult {
  int episodes = 0;
  double return_mean = 0.0;
  double return_std = 0.0;  ///< of the episodes, population
  double length_mean = 0.0;
};

/// What one part of a cell costs in memory.
struct MemoryItem {
  std::string name;
  std::size_t bytes = 0;
};

/// An instance that came to a non-finite value, as it was then.
struct OffendingState {
  std::uint32_t instance = 0;
  std::vector<std::uint32_t> state;
};

class Cell {
 public:
  Cell() = default;
  Cell(const Cell&) = delete;
  Cell& operator=(const Cell&) = delete;
  virtual ~Cell() = default;

  /// Enqueues iteration `iteration` (from 0): a chunk of rollout with `epsilon`, then all its updates.
  virtual void iterate(std::int64_t iteration, double epsilon) = 0;
  /// Enqueues a chunk of rollout alone.
  virtual void roll_out(double epsilon) = 0;
  /// Waits for what was enqueued. Throws what it threw.
  virtual void synchronize() = 0;
  /// Makes what is enqueued end soon; its results are then worthless, and the cell must be loaded or dropped.
  virtual void cancel() = 0;

  /// Takes the statistics and starts new ones. REQUIRES: synchronized.
  virtual ChunkStatistics take_statistics() = 0;
  /// Greedy episodes with the evaluation parameters on instances of their own; `round` chooses fresh random streams.
  /// Changes nothing in training. REQUIRES: synchronized.
  virtual EvaluationResult evaluate(std::uint64_t key, std::uint64_t round, int episodes) = 0;
  /// The first non-finite state since the start, once. REQUIRES: synchronized.
  virtual std::optional<OffendingState> take_offending_state() = 0;

  /// Adds everything that training needs to go on. REQUIRES: synchronized.
  virtual void save(Checkpoint& checkpoint) const = 0;
  /// Takes it back. Throws UserError if the checkpoint does not fit.
  virtual void load(const Checkpoint& checkpoint) = 0;
  /// XXH3-128 of all parameters, in hexadecimal. REQUIRES: synchronized.
  [[nodiscard]] virtual std::string digest() const = 0;
  [[nodiscard]] virtual std::int64_t updates() const = 0;
};

/// What a cell would take; the largest parts first.
[[nodiscard]] std::vector<MemoryItem> memory_plan(const EnvironmentDescription& environment,
                                                  const ExperimentConfig& config, int workers);

class CpuDevice;
/// A cell on the CPU. Throws UserError for settings that this environment cannot have.
[[nodiscard]] std::unique_ptr<Cell> make_cpu_cell(CpuDevice& device, const EnvironmentDescription& environment,
                                                  const ExperimentConfig& config, Isa isa);

/// Iterations in the whole run: enough for algo.total_steps.
[[nodiscard]] inline std::int64_t num_iterations(const ExperimentConfig& config) {
  const std::int64_t chunk = static_cast<std::int64_t>(config.env.num_envs) * config.algo.num_steps;
  return (config.algo.total_steps + chunk - 1) / chunk;
}
/// Linear from start to end over a fraction of the iterations.
[[nodiscard]] double epsilon_at(const ExperimentConfig& config, std::int64_t iteration);
/// Linear from lr to lr_end over a fraction of the updates.
[[nodiscard]] double learning_rate_at(const ExperimentConfig& config, std::int64_t update);

}  // namespace millrace
