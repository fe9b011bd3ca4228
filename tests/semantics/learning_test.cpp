// What training learns: right values at time limits, images, several agents; and that a value that is not
// finite in one instance leaves the rest of the run as it was.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "envs/philox.hpp"
#include "kernels/instances.hpp"
#include "tests/semantics/trained.hpp"

namespace millrace {
namespace {

using semantics::small_experiment;
using semantics::train;

ExperimentConfig endless() {
  ExperimentConfig config = small_experiment("TestEndless-v0", 64, 8, 150);
  config.algo.gamma = 0.9;
  config.algo.num_epochs = 4;
  config.algo.lr = 1e-2;
  config.network.hidden = {8};
  config.network.layer_norm = false;
  config.network.init = NetworkConfig::Init::kHeNormal;
  config.eval.only_at_end = true;
  return config;
}

/// max Q at the observation 1, by the trained network with one hidden layer, in double.
double value_at_one(const Checkpoint& checkpoint) {
  const auto w0 = checkpoint.get<float>("layers.0.weight"), b0 = checkpoint.get<float>("layers.0.bias"),
             w1 = checkpoint.get<float>("layers.1.weight"), b1 = checkpoint.get<float>("layers.1.bias");
  double best = -1e300;
  for (std::size_t o = 0; o < b1.size(); ++o) {
    double q = static_cast<double>(b1[o]);
    for (std::size_t h = 0; h < b0.size(); ++h) {
      q += std::max(0.0, static_cast<double>(w0[h]) + static_cast<double>(b0[h])) *
           static_cast<double>(w1[h * b1.size() + o]);
    }
    best = std::max(best, q);
  }
  return best;
}

TEST(Truncation, ATimeLimitIsNotTheEndOfTheWorld) {
  for (const double lambda : {0.0, 0.65, 1.0}) {
    ExperimentConfig config = endless();
    config.algo.lambda = lambda;
    const double value = value_at_one(*train(config)->last_checkpoint);
    EXPECT_NEAR(value, 10.0, 0.2) << "1 / (1 - 0.9), lambda " << lambda;
  }
}

TEST(Truncation, CompatibilityTakesItForOne) {
  ExperimentConfig config = endless();
  config.algo.compat = AlgoConfig::Compat::kPurejaxql;
  const double value = value_at_one(*train(config)->last_checkpoint);
  EXPECT_LT(value, 9.0);
  EXPECT_GT(value, 3.0);
}

TEST(Learning, FromAnImage) {
  ExperimentConfig config = small_experiment("TestCatch-v0", 256, 9, 60);
  config.network.hidden = {64};
  config.algo.lr = 3e-3;
  config.algo.epsilon_end = 0.05;
  config.eval.episodes = 200;
  const auto trained = train(config);
  EXPECT_GE(trained->result.last_evaluation.return_mean, 0.9);
  EXPECT_LT(trained->evaluations.front().return_mean, 0.5) << "it was not good from the start";
  EXPECT_EQ(trained->result.last_evaluation.length_mean, 9.0);
}

TEST(Learning, WithTwoAgents) {
  ExperimentConfig config = small_experiment("TestTwoAgents-v0", 128, 8, 200);
  config.network.hidden = {32};
  config.algo.num_epochs = 4;
  config.algo.lr = 5e-3;
  config.algo.gamma = 0.9;
  const auto trained = train(config);
  // Ten steps, 1 for the first agent and 2 for the second: 15 in the mean.
  EXPECT_GE(trained->result.last_evaluation.return_mean, 14.9);
  EXPECT_LE(trained->result.last_evaluation.return_mean, 15.0);
  EXPECT_LT(trained->evaluations.front().return_mean, 14.0);
}

ExperimentConfig fragile(int plant, std::uint32_t victim) {
  ExperimentConfig config = small_experiment("TestFragile-v0", 200, 16, 6);
  const EnvironmentDescription& environment = testing_environments::environment("TestFragile-v0");
  std::vector<std::uint32_t> state(static_cast<std::size_t>(environment.state_words));
  environment.rules.reset(environment.default_config.data(), config.seed, victim, 0, state.data());
  config.env.params = {{"plant", ParameterType::kInt, static_cast<double>(plant)},
                       {"target", ParameterType::kInt, static_cast<double>(state[0])},
                       {"at_step", ParameterType::kInt, plant == 4 ? 0.0 : 4.0},
                       {"max_episode_steps", ParameterType::kInt, 50.0}};
  config.env.stagger = false;
  config.eval.only_at_end = true;
  return config;
}

TEST(Quarantine, IsCountedReportedOnceAndLearntFromNever) {
  constexpr std::uint32_t kVictim = 150;
  std::vector<std::string> digests;
  for (const int plant : {1, 2, 3}) {
    const auto trained = train(fragile(plant, kVictim), 3);
    EXPECT_EQ(trained->result.ending, Ending::kDone);
    EXPECT_EQ(trained->result.at.quarantined, 1u) << "plant " << plant;
    ASSERT_EQ(trained->offences.size(), 1u) << "plant " << plant;
    EXPECT_EQ(trained->offences[0].instance, kVictim);
    ASSERT_EQ(trained->offences[0].state.size(), 3u);
    EXPECT_EQ(trained->offences[0].state[1], 4u) << "its age, as it was";
    float position;
    std::memcpy(&position, &trained->offences[0].state[2], sizeof(position));
    EXPECT_EQ(std::isnan(position), plant == 1);
    for (const auto& report : trained->iterations) {
      EXPECT_TRUE(std::isfinite(report.statistics.squared_error_mean));
      EXPECT_TRUE(std::isfinite(report.statistics.running_return_mean));
      EXPECT_TRUE(std::isfinite(report.statistics.return_sum));
    }
    for (const float w : trained->last_checkpoint->get<float>("layers.0.weight"))
      ASSERT_TRUE(std::isfinite(w));
    digests.push_back(trained->result.digest);
  }
  // Which value it was that broke makes no difference: the transition is dropped whole.
  EXPECT_EQ(digests[0], digests[1]);
  EXPECT_EQ(digests[0], digests[2]);
  const auto sound = train(fragile(0, kVictim), 3);
  EXPECT_EQ(sound->result.at.quarantined, 0u);
  EXPECT_TRUE(sound->offences.empty());
  EXPECT_NE(sound->result.digest, digests[0]);
}

TEST(Quarantine, AFirstStateThatIsNotFiniteSpoilsNothingElse) {
  // Its first step is quarantined too, and its observation is NaN: nothing of it may reach the weights.
  for (const auto compat : {AlgoConfig::Compat::kNone, AlgoConfig::Compat::kPurejaxql}) {
    ExperimentConfig config = fragile(4, 3);
    config.algo.compat = compat;
    const auto trained = train(config);
    EXPECT_EQ(trained->result.at.quarantined, 1u);
    ASSERT_EQ(trained->offences.size(), 1u);
    EXPECT_EQ(trained->offences[0].instance, 3u);
    for (const auto& report : trained->iterations) {
      EXPECT_TRUE(std::isfinite(report.statistics.squared_error_mean));
      EXPECT_TRUE(std::isfinite(report.statistics.value_mean));
    }
    for (const float w : trained->last_checkpoint->get<float>("layers.0.weight"))
      ASSERT_TRUE(std::isfinite(w));
  }
}

TEST(Quarantine, AnEvaluationCountsTheStepsBeforeIt) {
  const EnvironmentDescription& environment = testing_environments::environment("TestFragile-v0");
  ExperimentConfig config = fragile(2, 0);
  // The instance of the first evaluation that is to break, by its first draw.
  Draws draws(config.seed, 6, 0, kReset + kEvaluation);
  config.env.params[1].value = static_cast<double>(draws.bits() >> 8);
  EvaluationResult results[2];
  for (const int i : {0, 1}) {
    config.env.params[0].value = i == 0 ? 2.0 : 0.0;
    CpuDevice device({.threads = 2, .pinning = CpuPinning::kOff});
    const auto cell = make_cpu_cell(device, environment, config, best_isa());
    results[i] = cell->evaluate(config.seed, 0, 20);
  }
  EXPECT_TRUE(std::isfinite(results[0].return_mean));
  EXPECT_TRUE(std::isfinite(results[0].return_std));
  EXPECT_LT(results[0].length_mean, results[1].length_mean) << "the episode ended there";
  EXPECT_NEAR(results[0].return_mean, results[1].return_mean, 3.0);
}

TEST(Quarantine, LeavesTheOthersTheirBits) {
  constexpr int kVictim = 67;
  const EnvironmentDescription& environment = testing_environments::environment("TestFragile-v0");
  // One chunk: the networks, and with them the actions, are the same still.
  const auto after_a_chunk = [&](int plant) {
    const ExperimentConfig config = fragile(plant, kVictim);
    CpuDevice device({.threads = 2, .pinning = CpuPinning::kOff});
    const auto cell = make_cpu_cell(device, environment, config, best_isa());
    cell->iterate(0, 0.3);
    cell->synchronize();
    Checkpoint checkpoint;
    cell->save(checkpoint);
    const auto words = checkpoint.get<std::uint32_t>("environments");
    return std::vector<std::uint32_t>(words.begin(), words.end());
  };
  const InstanceLayout layout(200, environment.state_words, 1);
  const auto sound = after_a_chunk(0);
  for (const int plant : {1, 2, 3, 4}) {
    const auto broken = after_a_chunk(plant);
    ASSERT_EQ(broken.size(), layout.words());
    for (int row = 0; row < layout.rows; ++row) {
      for (int i = 0; i < layout.instances; ++i) {
        const std::size_t at = layout.row(row) + static_cast<std::size_t>(i);
        if (i == kVictim) continue;
        ASSERT_EQ(broken[at], sound[at]) << "row " << row << " instance " << i;
      }
    }
    EXPECT_EQ(broken[layout.quarantined() + kVictim], 1u);
  }
}

TEST(Statistics, AddUpOverIterations) {
  ExperimentConfig config = small_experiment("CartPole-v1", 100, 20, 10);
  config.env.stagger = false;
  config.eval.only_at_end = true;
  const auto trained = train(config);
  double lengths = 0.0;
  for (const auto& report : trained->iterations) {
    const ChunkStatistics& s = report.statistics;
    EXPECT_EQ(s.return_sum, s.length_sum) << "CartPole pays 1 a step";
    EXPECT_LE(s.instances, s.episodes);
    lengths += s.length_sum;
  }
  // Every step belongs to an episode that was counted, or to one in flight.
  lengths += 100.0 * trained->iterations.back().statistics.running_length_mean;
  EXPECT_NEAR(lengths, 100.0 * 20 * 10, 1e-6);
  EXPECT_EQ(trained->iterations.back().statistics.running_length_mean,
            trained->iterations.back().statistics.running_return_mean);
}

}  // namespace
}  // namespace millrace
