// A run from configuration to summary; see run.hpp.
#include "runtime/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "runtime/checkpoint_folder.hpp"
#include "runtime/config_reader.hpp"
#include "runtime/config_text.hpp"
#include "runtime/cpu_device.hpp"
#include "runtime/error.hpp"
#include "runtime/memory_limit.hpp"
#include "runtime/registry.hpp"
#include "runtime/run_folder.hpp"
#include "runtime/run_recorder.hpp"

namespace millrace {
namespace {

Isa isa_of(const ExperimentConfig& config) {
  switch (config.run.isa) {
    case RunConfig::Isa::kAuto:
      return best_isa();
    case RunConfig::Isa::kBaseline:
      return Isa::kBaseline;
    case RunConfig::Isa::kAvx2:
      return Isa::kAvx2;
    case RunConfig::Isa::kAvx512:
      return Isa::kAvx512;
  }
  return best_isa();
}

CpuDeviceOptions device_options(const ExperimentConfig& config) {
  if (config.run.device != "auto" && config.run.device != "cpu") {
    throw UserError(fmt::format("run.device: \"{}\" asks for a CUDA device, which this build of Millrace does not have; "
                                "allowed are \"cpu\" and \"auto\".",
                                config.run.device));
  }
  return {.threads = config.run.threads, .pinning = config.run.pin ? CpuPinning::kAuto : CpuPinning::kOff};
}

std::size_t total_bytes(const EnvironmentDescription& environment, const ExperimentConfig& config, int workers) {
  std::size_t sum = 0;
  for (const MemoryItem& item : memory_plan(environment, config, workers)) sum += item.bytes;
  return sum;
}

/// Refuses what does not fit, naming the largest number of instances that would.
void check_memory(const EnvironmentDescription& environment, const ExperimentConfig& config, int workers) {
  const std::size_t available = available_memory_bytes();
  const std::size_t needed = total_bytes(environment, config, workers);
  if (needed <= available) return;
  int fits = 0;
  for (int low = 1, high = config.env.num_envs; low <= high;) {
    const int middle = low + (high - low) / 2;
    ExperimentConfig smaller = config;
    smaller.env.num_envs = middle;
    if (total_bytes(environment, smaller, workers) <= available) {
      fits = middle;
      low = middle + 1;
    } else {
      high = middle - 1;
    }
  }
  throw UserError(fmt::format(
      "env.num_envs: {} instances need {:.1f} GiB of memory and {:.1f} GiB are free; at most {} would fit.",
      config.env.num_envs, static_cast<double>(needed) / 0x1p30, static_cast<double>(available) / 0x1p30, fits));
}

/// What a run needs, in the order of construction.
struct Workshop {
  const EnvironmentDescription& environment;
  CpuDevice device;
  Isa isa;
  std::unique_ptr<Cell> cell;

  explicit Workshop(const ExperimentConfig& config)
      : environment(find_environment(config.env.id)), device(device_options(config)), isa(isa_of(config)) {
    check_memory(environment, config, device.num_workers());
    cell = make_cpu_cell(device, environment, config, isa);
  }
};

RunSummary finish(const ExperimentConfig& config, const Workshop& workshop, Trainer& trainer, RunRecorder& recorder,
                  const RunFolder& folder) {
  const TrainingResult result = trainer.run();
  recorder.finish();
  RunSummary summary;
  summary.run_dir = folder.path().string();
  summary.seed = config.seed;
  summary.env_id = config.env.id;
  summary.num_envs = config.env.num_envs;
  summary.device = "cpu";
  summary.threads = workshop.device.num_workers();
  summary.isa = to_string(workshop.isa);
  summary.steps = result.at.steps;
  summary.updates = workshop.cell->updates();
  summary.wall_s = result.at.wall_s;
  summary.train_s = result.at.train_s;
  summary.steps_per_s = result.at.train_s > 0.0 ? static_cast<double>(result.at.steps) / result.at.train_s : 0.0;
  summary.greedy_return_mean = result.last_evaluation.return_mean;
  summary.greedy_return_std = result.last_evaluation.return_std;
  summary.greedy_episodes = result.last_evaluation.episodes;
  summary.first_step_at_threshold = result.at.first_step_at_threshold;
  summary.seconds_at_threshold = result.at.seconds_at_threshold;
  summary.quarantined = result.at.quarantined;
  summary.digest = result.digest;
  summary.ending = result.ending;
  summary.checkpoint = recorder.last_checkpoint();
  write_text_atomically(folder.summary(), to_json(summary) + "\n");
  recorder.draw();
  return summary;
}

ParameterResolver resolver() {
  return [](const std::string& id) { return parameter_fields(id); };
}

/// The configuration that a checkpoint was made with, and overrides on top.
ExperimentConfig config_of(const FoundCheckpoint& found, const std::vector<std::string>& overrides) {
  return parse_config(found.checkpoint.metadata("config"), found.path.string() + " (its configuration)", overrides,
                      resolver());
}

/// The run folder that a checkpoint belongs to.
std::filesystem::path run_folder_of(const std::filesystem::path& checkpoint) {
  const std::filesystem::path folder = std::filesystem::absolute(checkpoint).parent_path();
  return folder.filename() == "checkpoints" ? folder.parent_path() : folder;
}

void warn_skipped(const std::vector<SkippedCheckpoint>& skipped) {
  for (const SkippedCheckpoint& one : skipped) fmt::print(stderr, "Passed over: {}\n", one.reason);
}

}  // namespace

RunSummary train(const ExperimentConfig& config, const RunOptions& options, const std::atomic<bool>& interrupt) {
  Workshop workshop(config);
  const RunFolder folder = options.run_dir ? RunFolder::at(*options.run_dir)
                                           : RunFolder::create(config.run.runs_dir, config.env.id, config.experiment,
                                                               config.seed);
  write_text_atomically(folder.config(), to_toml(config));
  RunRecorder recorder(config, workshop.environment, folder, options, std::nullopt);
  Trainer trainer(config, workshop.environment, *workshop.cell, recorder, interrupt, options.process_age_s);
  return finish(config, workshop, trainer, recorder, folder);
}

RunSummary resume(const std::filesystem::path& run, const std::vector<std::string>& overrides,
                  const RunOptions& options, const std::atomic<bool>& interrupt) {
  std::vector<SkippedCheckpoint> skipped;
  // Once to find the folder, and again when it is ours: until then another process may go on with the run.
  const RunFolder folder = RunFolder::existing(run_folder_of(resolve_checkpoint(run).path));
  const FoundCheckpoint found = resolve_checkpoint(run, &skipped);
  warn_skipped(skipped);
  const ExperimentConfig config = config_of(found, overrides);
  const std::uint64_t step = found.checkpoint.get_scalar<std::uint64_t>("progress.steps");
  Workshop workshop(config);
  RunRecorder recorder(config, workshop.environment, folder, options, step);
  Trainer trainer(config, workshop.environment, *workshop.cell, recorder, interrupt, options.process_age_s);
  trainer.resume(found.checkpoint);
  write_text_atomically(folder.config(), to_toml(config));
  return finish(config, workshop, trainer, recorder, folder);
}

EvaluationSummary evaluate_checkpoint(const std::filesystem::path& run_or_checkpoint, std::optional<int> episodes,
                                      std::optional<std::uint64_t> seed) {
  std::vector<SkippedCheckpoint> skipped;
  const FoundCheckpoint found = resolve_checkpoint(run_or_checkpoint, &skipped);
  warn_skipped(skipped);
  const ExperimentConfig config = config_of(found, {});
  const Workshop workshop(config);
  workshop.cell->load(found.checkpoint);
  EvaluationSummary summary;
  summary.checkpoint = found.path.string();
  summary.env_id = config.env.id;
  summary.steps = found.checkpoint.get_scalar<std::uint64_t>("progress.steps");
  // Without a seed of its own: the run's, in episodes that no evaluation of the run has seen.
  summary.seed = seed.value_or(config.seed);
  const std::uint64_t round = seed ? 0 : found.checkpoint.get_scalar<std::uint64_t>("progress.evaluations");
  summary.result = workshop.cell->evaluate(summary.seed, round, episodes.value_or(config.eval.episodes));
  return summary;
}

std::string describe_plan(const ExperimentConfig& config) {
  const EnvironmentDescription& environment = find_environment(config.env.id);
  const CpuDeviceOptions options = device_options(config);
  const int workers = options.threads > 0 ? options.threads : CpuDevice(options).num_workers();
  check_memory(environment, config, workers);
  std::string text = to_toml(config);
  const double iterations = static_cast<double>(num_iterations(config));
  text += fmt::format("\n# Plan: {} iterations of {} steps, {} updates each, on the CPU with {} workers ({}).\n",
                      iterations, static_cast<std::int64_t>(config.env.num_envs) * config.algo.num_steps,
                      config.algo.num_epochs * config.algo.num_minibatches, workers, to_string(isa_of(config)));
  text += fmt::format("# Memory: {:.1f} MiB of {:.0f} MiB free.\n",
                      static_cast<double>(total_bytes(environment, config, workers)) / 0x1p20,
                      static_cast<double>(available_memory_bytes()) / 0x1p20);
  for (const MemoryItem& item : memory_plan(environment, config, workers)) {
    text += fmt::format("#   {:>10.2f} MiB  {}\n", static_cast<double>(item.bytes) / 0x1p20, item.name);
  }
  return text;
}

}  // namespace millrace
