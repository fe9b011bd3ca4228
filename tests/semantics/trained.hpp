// Small experiments, trained through Trainer and a CPU cell, with everything the trainer reported; for tests.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/cell.hpp"
#include "runtime/cpu_device.hpp"
#include "runtime/trainer.hpp"
#include "tests/environments/registration.hpp"

namespace millrace::semantics {

/// A small experiment on `env_id`, complete but for what the test is about.
inline ExperimentConfig small_experiment(const char* env_id, int num_envs, int num_steps, int iterations) {
  ExperimentConfig config;
  config.experiment = "test";
  config.seed = 5;
  config.env.id = env_id;
  config.env.num_envs = num_envs;
  config.algo.num_steps = num_steps;
  config.algo.total_steps = static_cast<std::int64_t>(num_envs) * num_steps * iterations;
  config.algo.num_minibatches = 3;
  config.network.hidden = {16, 16};
  config.eval.episodes = 20;
  return config;
}

struct Trained final : TrainerObserver {
  TrainingResult result;
  std::vector<IterationReport> iterations;
  std::vector<EvaluationResult> evaluations;
  std::vector<OffendingState> offences;
  std::optional<Checkpoint> last_checkpoint;
  std::atomic<bool> interrupt{false};
  std::int64_t interrupt_after = -1;  ///< iterations

  void on_iteration(const IterationReport& report) override {
    iterations.push_back(report);
    if (report.at.iteration == interrupt_after) interrupt = true;
  }
  void on_evaluation(const Progression&, const EvaluationResult& evaluation) override {
    evaluations.push_back(evaluation);
  }
  void on_offence(const OffendingState& state) override { offences.push_back(state); }
  void on_checkpoint(Checkpoint&& checkpoint, const Progression&, std::optional<double>, bool) override {
    last_checkpoint = std::move(checkpoint);
  }
};

/// Trains with `workers` threads; from `resumed` if given; until `interrupt_after` iterations if that is not
/// negative.
inline std::unique_ptr<Trained> train(const ExperimentConfig& config, int workers = 2,
                                      const Checkpoint* resumed = nullptr,
                                      std::int64_t interrupt_after = -1) {
  const EnvironmentDescription& environment = testing_environments::environment(config.env.id.c_str());
  CpuDevice device({.threads = workers, .pinning = CpuPinning::kOff});
  const std::unique_ptr<Cell> cell = make_cpu_cell(device, environment, config, best_isa());
  auto trained = std::make_unique<Trained>();
  trained->interrupt_after = interrupt_after;
  Trainer trainer(config, environment, *cell, *trained, trained->interrupt, 0.0);
  if (resumed != nullptr) trainer.resume(*resumed);
  trained->result = trainer.run();
  return trained;
}

}  // namespace millrace::semantics
