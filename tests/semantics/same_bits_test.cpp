// One digest whatever the number of workers, with or without evaluations, and across save and load.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/semantics/trained.hpp"

namespace millrace {
namespace {

using semantics::small_experiment;
using semantics::train;
using semantics::Trained;

/// Everything at once that could depend on who computes what, or be forgotten in a checkpoint.
ExperimentConfig demanding(const char* env_id) {
  ExperimentConfig config = small_experiment(env_id, 333, 7, 10);
  config.algo.hold_max = 9;
  config.algo.hold_exponent = 1.0;
  config.algo.average_decay = 0.9;
  config.algo.epsilon_mode = AlgoConfig::EpsilonMode::kPerInstance;
  config.algo.epsilon_fraction = 0.8;
  config.env.stagger = true;
  return config;
}

void expect_same_course(const Trained& a, const Trained& b, std::size_t skipped = 0) {
  EXPECT_EQ(a.result.digest, b.result.digest);
  ASSERT_EQ(a.iterations.size(), b.iterations.size() + skipped);
  for (std::size_t i = 0; i < b.iterations.size(); ++i) {
    const ChunkStatistics& x = a.iterations[i + skipped].statistics;
    const ChunkStatistics& y = b.iterations[i].statistics;
    EXPECT_EQ(x.episodes, y.episodes) << "iteration " << i;
    EXPECT_EQ(x.return_sum, y.return_sum);
    EXPECT_EQ(x.length_sum, y.length_sum);
    EXPECT_EQ(x.running_return_mean, y.running_return_mean);
    EXPECT_EQ(x.running_length_mean, y.running_length_mean);
    EXPECT_EQ(x.squared_error_mean, y.squared_error_mean);
    EXPECT_EQ(x.value_mean, y.value_mean);
    EXPECT_EQ(a.iterations[i + skipped].epsilon, b.iterations[i].epsilon);
    EXPECT_EQ(a.iterations[i + skipped].learning_rate, b.iterations[i].learning_rate);
  }
}

class SameBits : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Environments, SameBits,
                         testing::Values("CartPole-v1", "MountainCar-v0", "Acrobot-v1", "Pendulum-v1",
                                         "TestCatch-v0", "TestTwoAgents-v0", "TestFragile-v0"));

TEST_P(SameBits, ForAnyNumberOfWorkers) {
  ExperimentConfig config = demanding(GetParam());
  for (const bool large : {false, true}) {
    // The larger network takes the other way through reduction and update.
    if (large) config.network.hidden = {96, 96};
    const auto one = train(config, 1);
    EXPECT_TRUE(std::isfinite(one->iterations.back().statistics.squared_error_mean));
    for (const int workers : {2, 3, 8}) expect_same_course(*one, *train(config, workers));
  }
}

TEST_P(SameBits, WithEvaluationsAndCheckpointsOrWithout) {
  ExperimentConfig config = demanding(GetParam());
  config.eval.every = 1;
  config.run.checkpoint_every = 1;
  const auto often = train(config);
  EXPECT_EQ(often->evaluations.size(), 10u);
  config.eval.every = 0;
  config.eval.only_at_end = true;
  config.run.checkpoint_every = config.algo.total_steps;
  const auto once = train(config);
  EXPECT_EQ(once->evaluations.size(), 1u);
  expect_same_course(*often, *once);
}

TEST_P(SameBits, AcrossInterruptionAndResumption) {
  const ExperimentConfig config = demanding(GetParam());
  const auto whole = train(config, 2);
  ASSERT_EQ(whole->result.ending, Ending::kDone);
  for (const std::int64_t at : {1, 4, 9}) {
    const auto first = train(config, 3, nullptr, at);
    ASSERT_EQ(first->result.ending, Ending::kInterrupted);
    ASSERT_EQ(first->result.at.iteration, at);
    ASSERT_NE(first->result.digest, whole->result.digest);
    const auto second = train(config, 1, &*first->last_checkpoint);
    expect_same_course(*whole, *second, static_cast<std::size_t>(at));
    EXPECT_EQ(second->result.at.steps, whole->result.at.steps);
    EXPECT_EQ(second->result.at.evaluations, whole->result.at.evaluations);
    EXPECT_EQ(second->result.last_evaluation.return_mean, whole->result.last_evaluation.return_mean);
    EXPECT_EQ(second->result.at.best_return, whole->result.at.best_return);
  }
}

TEST(SameBitsSettings, EachOptimiserResumes) {
  for (const auto optimizer :
       {AlgoConfig::Optimizer::kSgd, AlgoConfig::Optimizer::kAdam, AlgoConfig::Optimizer::kRadam}) {
    ExperimentConfig config = demanding("CartPole-v1");
    config.algo.optimizer = optimizer;
    config.algo.momentum = optimizer == AlgoConfig::Optimizer::kSgd ? 0.9 : 0.0;
    config.algo.average_decay = 0.0;
    const auto whole = train(config);
    const auto first = train(config, 2, nullptr, 5);
    const auto second = train(config, 2, &*first->last_checkpoint);
    expect_same_course(*whole, *second, 5);
  }
}

TEST(SameBitsSettings, ASeedMattersAndTheNumberOfShardsIsPartOfTheExperiment) {
  ExperimentConfig config = demanding("CartPole-v1");
  const std::string base = train(config)->result.digest;
  EXPECT_EQ(train(config)->result.digest, base);
  config.seed = 6;
  EXPECT_NE(train(config)->result.digest, base);
  config.seed = 5 + (std::uint64_t{1} << 40);
  EXPECT_NE(train(config)->result.digest, base) << "the upper half of the seed counts";
}

TEST(SameBitsSettings, FusedInstructionSetsTrainAlike) {
  if (best_isa() < Isa::kAvx512) GTEST_SKIP() << "needs AVX-512 to compare with AVX2";
  const EnvironmentDescription& environment = testing_environments::environment("CartPole-v1");
  const ExperimentConfig config = demanding("CartPole-v1");
  std::string digests[2];
  for (const int i : {0, 1}) {
    CpuDevice device({.threads = 2, .pinning = CpuPinning::kOff});
    const auto cell = make_cpu_cell(device, environment, config, i == 0 ? Isa::kAvx2 : Isa::kAvx512);
    for (int k = 0; k < 5; ++k) {
      cell->iterate(k, epsilon_at(config, k));
      cell->synchronize();
    }
    digests[i] = cell->digest();
  }
  EXPECT_EQ(digests[0], digests[1]);
}

TEST(Evaluation, ChangesNothingAndRepeats) {
  const EnvironmentDescription& environment = testing_environments::environment("CartPole-v1");
  const ExperimentConfig config = demanding("CartPole-v1");
  CpuDevice device({.threads = 3, .pinning = CpuPinning::kOff});
  const auto cell = make_cpu_cell(device, environment, config, best_isa());
  for (int k = 0; k < 3; ++k) {
    cell->iterate(k, 0.5);
    cell->synchronize();
  }
  Checkpoint before, after;
  cell->save(before);
  const EvaluationResult first = cell->evaluate(config.seed, 0, 77);
  const EvaluationResult other = cell->evaluate(config.seed, 1, 77);
  const EvaluationResult again = cell->evaluate(config.seed, 0, 77);
  cell->save(after);
  EXPECT_EQ(before, after);
  EXPECT_EQ(first.return_mean, again.return_mean);
  EXPECT_EQ(first.return_std, again.return_std);
  EXPECT_NE(first.return_mean, other.return_mean) << "another round, other episodes";
  EXPECT_EQ(first.return_mean, first.length_mean) << "CartPole pays 1 a step";
  EXPECT_GE(first.return_mean, 8.0);
}

}  // namespace
}  // namespace millrace
