// Rollout and evaluation under a policy against a plain account of them: the scalar rules, the network in
// double, held exploring actions simulated one by one, and returns by their recursion.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/network.hpp"
#include "kernels/returns.hpp"
#include "tests/kernels/stepped.hpp"

namespace millrace {
namespace {

using stepping::config_with_limit;
using stepping::Stepped;
using testing_environments::environment;
using testing_environments::machine_isas;

/// Q of one observation, in double.
std::vector<double> q_values(const Network& network, const std::vector<float>& p, std::vector<double> x) {
  for (int l = 0; l < network.num_layers; ++l) {
    const DenseLayer& d = network.layers[l];
    const auto outputs = static_cast<std::size_t>(d.outputs);
    std::vector<double> y(outputs);
    double mean = 0.0, variance = 0.0;
    for (std::size_t o = 0; o < outputs; ++o) {
      y[o] = static_cast<double>(p[d.bias + o]);
      for (std::size_t i = 0; i < x.size(); ++i)
        y[o] += static_cast<double>(p[d.weight + i * outputs + o]) * x[i];
      mean += y[o] / static_cast<double>(outputs);
    }
    for (const double v : y) variance += (v - mean) * (v - mean) / static_cast<double>(outputs);
    for (std::size_t o = 0; o < outputs; ++o) {
      if (d.normalised) {
        y[o] = (y[o] - mean) / std::sqrt(variance + 1e-6) * static_cast<double>(p[d.gain + o]) +
               static_cast<double>(p[d.shift + o]);
      }
      if (d.activated) y[o] = std::max(0.0, y[o]);
    }
    x = y;
  }
  return x;
}

std::vector<double> inputs_of(const EnvironmentDescription& env, const std::vector<std::uint32_t>& words) {
  std::vector<double> inputs;
  for (std::size_t i = 0; i < static_cast<std::size_t>(env.observation_size); ++i) {
    if (env.is_image) {
      inputs.push_back((words[i / 32] >> (i % 32)) & 1u);
    } else {
      float value;
      std::memcpy(&value, &words[i], sizeof(value));
      inputs.push_back(static_cast<double>(value));
    }
  }
  return inputs;
}

struct alignas(64) Line {
  unsigned char bytes[64];
};

/// A policy on an environment, and a rollout of it.
struct Rolled {
  const EnvironmentDescription& env;
  std::vector<std::byte> config;
  int num_envs, num_steps, num_actions;
  Network network;
  std::vector<float> parameters;
  InstanceLayout layout;
  TrajectoryLayout trajectory_layout;
  std::vector<std::uint32_t> trajectory, offences;
  std::vector<float> epsilon;
  std::vector<std::uint32_t> hold_limits;
  std::vector<int> cuts;
  std::uint32_t first_instance = 7;
  static constexpr std::uint64_t kKey = 31;
  static constexpr float kGamma = 0.95f, kLambda = 0.7f, kScale = 0.5f;

  Rolled(const char* id, int envs, int steps, int limit)
      : env(environment(id)),
        config(config_with_limit(env, limit)),
        num_envs(envs),
        num_steps(steps),
        num_actions(env.rules.num_actions(config.data())),
        network(make_network(env.observation_size, std::vector<int>{19, 32}, num_actions, true)),
        parameters(network.parameters),
        layout(envs, env.state_words, env.num_agents),
        trajectory_layout(envs, steps, env.num_agents, env.observation_words),
        trajectory(trajectory_layout.words(), 0x7FC00000u),
        epsilon(static_cast<std::size_t>(layout.stride), 0.4f) {
    initialise_parameters(network, Initialisation::kLecunNormal, 1, parameters);
  }

  /// `chunks` rollouts one after the other; returns the instances' words. The trajectory is the last one's.
  std::vector<std::uint32_t> run(Isa isa, int chunks = 1) {
    const EnvironmentKernels& kernels = kernels_for(env, isa);
    Stepped start(env, kernels, config, num_envs, kKey, first_instance);
    offences.assign(static_cast<std::size_t>((layout.stride / 64 + 1) * (2 + env.state_words)), 0u);
    std::vector<Line> scratch(kernels.rollout_scratch_bytes(network) / 64 + 1);
    RolloutArguments args{};
    args.config = config.data();
    args.key = kKey;
    args.first_instance = first_instance;
    args.layout = layout;
    args.instances = start.instances().data();
    args.trajectory_layout = trajectory_layout;
    args.trajectory = trajectory.data();
    args.network = &network;
    args.parameters = parameters.data();
    args.num_actions = num_actions;
    args.epsilon = epsilon.data();
    args.hold_limits = hold_limits.data();
    args.hold_max = static_cast<int>(hold_limits.size()) + 1;
    args.gamma = kGamma;
    args.lambda = kLambda;
    args.reward_scale = kScale;
    args.offending_state = offences.data();
    for (int c = 0; c < chunks; ++c) {
      std::vector<int> ends = cuts;
      ends.push_back(layout.stride / kGroup);
      int first = 0;
      for (const int end : ends) {
        std::memset(scratch.data(), 0xFF, scratch.size() * 64);
        kernels.rollout(args, first, end, scratch.data());
        first = end;
      }
    }
    return start.instances();
  }

  [[nodiscard]] std::uint32_t word(std::size_t row, int i) const {
    return trajectory[row + static_cast<std::size_t>(i)];
  }
  [[nodiscard]] float real(std::size_t row, int i) const {
    const std::uint32_t bits = word(row, i);
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
  }
};

class Rollout : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Environments, Rollout,
                         testing::Values("CartPole-v1", "MountainCar-v0", "Acrobot-v1", "Pendulum-v1",
                                         "TestEndless-v0", "TestFragile-v0", "TestCatch-v0",
                                         "TestTwoAgents-v0"));

TEST_P(Rollout, IsThePlainAccount) {
  for (const Isa isa : machine_isas()) {
    for (const bool hold : {false, true}) {
      Rolled r(GetParam(), 83, 41, 9);
      if (hold) r.hold_limits = {0x60000000u, 0xA0000000u, 0xE0000000u};
      r.run(isa);
      const TrajectoryLayout& t = r.trajectory_layout;
      const EnvironmentDescription& env = r.env;
      const auto agents = static_cast<std::size_t>(env.num_agents);
      int greedy_taken = 0, truncations = 0;
      for (int i = 0; i < r.num_envs; ++i) {
        const std::uint32_t instance = r.first_instance + static_cast<std::uint32_t>(i);
        std::vector<std::uint32_t> state(static_cast<std::size_t>(env.state_words));
        env.rules.reset(r.config.data(), Rolled::kKey, instance, 0, state.data());
        std::vector<std::int32_t> left(agents), held(agents);
        int length = 0;
        std::vector<LambdaReturn<float>> recursion;
        const auto observation = [&](std::size_t a) {
          std::vector<std::uint32_t> words(static_cast<std::size_t>(env.observation_words));
          env.rules.observe(r.config.data(), state.data(), static_cast<int>(a), words.data());
          return words;
        };
        const auto expect_observed = [&](int k, std::size_t a) {
          const auto words = observation(a);
          for (std::size_t o = 0; o < words.size(); ++o) {
            ASSERT_EQ(
                r.word(t.observation(k, static_cast<int>(a)) + o * static_cast<std::size_t>(t.stride), i),
                words[o])
                << "step " << k << " instance " << i;
          }
          const auto q = q_values(r.network, r.parameters, inputs_of(env, words));
          const double best = *std::max_element(q.begin(), q.end());
          ASSERT_NEAR(static_cast<double>(r.real(t.value(k, static_cast<int>(a)), i)), best,
                      1e-4 * (1.0 + std::abs(best)));
        };
        for (int k = 0; k < r.num_steps; ++k) {
          std::vector<std::int32_t> actions;
          for (std::size_t a = 0; a < agents; ++a) {
            expect_observed(k, a);
            const auto q = q_values(r.network, r.parameters, inputs_of(env, observation(a)));
            const auto taken = static_cast<std::int32_t>(r.word(t.action(k, static_cast<int>(a)), i));
            ASSERT_GE(taken, 0);
            ASSERT_LT(taken, r.num_actions);
            const auto block = philox4x32<std::uint32_t>(instance, static_cast<std::uint32_t>(k), kAction,
                                                         static_cast<std::uint32_t>(a), Rolled::kKey);
            if (left[a] > 0) {
              ASSERT_EQ(taken, held[a]) << "held, step " << k;
              --left[a];
            } else if (unit_real(block.word0) < 0.4f) {
              ASSERT_EQ(taken, static_cast<std::int32_t>(
                                   multiply_high(block.word1, static_cast<std::uint32_t>(r.num_actions))))
                  << "random, step " << k;
              held[a] = taken;
              for (const std::uint32_t limit : r.hold_limits) left[a] += block.word2 >= limit;
            } else {
              ++greedy_taken;
              // The best one, or one that rounding cannot tell from it.
              ASSERT_GE(q[static_cast<std::size_t>(taken)], *std::max_element(q.begin(), q.end()) - 1e-4);
            }
            actions.push_back(taken);
          }
          std::vector<float> rewards(agents);
          const bool terminated =
              env.rules.step(r.config.data(), Rolled::kKey, instance, static_cast<std::uint32_t>(k),
                             state.data(), actions.data(), rewards.data());
          const bool truncated = ++length == 9;
          ASSERT_EQ(r.word(t.flags(k), i), (terminated ? 1u : 0u) | (truncated ? 2u : 0u)) << "step " << k;
          for (std::size_t a = 0; a < agents; ++a) {
            ASSERT_EQ(r.real(t.reward(k, static_cast<int>(a)), i), rewards[a]);
            double final_value = 0.0;
            if (truncated && !terminated) {
              const auto q = q_values(r.network, r.parameters, inputs_of(env, observation(a)));
              final_value = *std::max_element(q.begin(), q.end());
              ++truncations;
            }
            ASSERT_NEAR(static_cast<double>(r.real(t.final_value(k, static_cast<int>(a)), i)), final_value,
                        1e-4 * (1.0 + std::abs(final_value)));
          }
          if (terminated || truncated) {
            length = 0;
            std::fill(left.begin(), left.end(), 0);
            env.rules.reset(r.config.data(), Rolled::kKey, instance, static_cast<std::uint32_t>(k + 1),
                            state.data());
          }
        }
        for (std::size_t a = 0; a < agents; ++a) {
          const int agent = static_cast<int>(a);
          expect_observed(r.num_steps, a);
          auto returns = LambdaReturn<float>::start(r.real(t.value(r.num_steps, agent), i));
          for (int k = r.num_steps - 1; k >= 0; --k) {
            const std::uint32_t flags = r.word(t.flags(k), i);
            const float target =
                returns.take({Rolled::kGamma, Rolled::kLambda, false, false},
                             r.real(t.reward(k, agent), i) * Rolled::kScale, (flags & kTerminated) != 0,
                             (flags & kTruncated) != 0, false, r.real(t.value(k, agent), i),
                             r.real(t.final_value(k, agent), i), k == r.num_steps - 1);
            ASSERT_EQ(r.real(t.target(k, agent), i), target) << "step " << k;
          }
        }
      }
      EXPECT_GT(greedy_taken, 100);
      if (std::string(GetParam()) != "TestCatch-v0") {
        EXPECT_GT(truncations, 0);
      }
    }
  }
}

TEST_P(Rollout, TilesDoNotDependOnTheSplit) {
  for (const Isa isa : machine_isas()) {
    Rolled whole(GetParam(), 150, 12, 9);
    whole.hold_limits = {0x80000000u};
    const auto expected = whole.run(isa, 3);
    for (const std::vector<int>& cuts : {std::vector<int>{4}, {1}, {3, 8}, {1, 2, 3, 4, 5, 6, 7, 8, 9}}) {
      Rolled split(GetParam(), 150, 12, 9);
      split.hold_limits = {0x80000000u};
      split.cuts = cuts;
      EXPECT_EQ(split.run(isa, 3), expected) << to_string(isa);
      const std::size_t last_row = split.trajectory_layout.rows_per_step;
      EXPECT_TRUE(std::equal(
          split.trajectory.begin(),
          split.trajectory.begin() +
              static_cast<std::ptrdiff_t>(last_row * static_cast<std::size_t>(split.num_steps) *
                                          static_cast<std::size_t>(split.trajectory_layout.stride)),
          whole.trajectory.begin()))
          << to_string(isa);
    }
  }
}

TEST_P(Rollout, ManyShortChunksAreOneLongOne) {
  for (const Isa isa : machine_isas()) {
    Rolled whole(GetParam(), 40, 36, 9), halves(GetParam(), 40, 4, 9);
    whole.hold_limits = halves.hold_limits = {0x40000000u, 0x80000000u};
    EXPECT_EQ(whole.run(isa, 1), halves.run(isa, 9)) << to_string(isa);
  }
}

TEST_P(Rollout, FusedInstructionSetsHaveTheSameBits) {
  if (best_isa() < Isa::kAvx512) GTEST_SKIP() << "needs AVX-512 to compare with AVX2";
  Rolled a(GetParam(), 77, 20, 9), b(GetParam(), 77, 20, 9);
  EXPECT_EQ(a.run(Isa::kAvx2, 2), b.run(Isa::kAvx512, 2));
  EXPECT_EQ(a.trajectory, b.trajectory);
}

TEST_P(Rollout, AnEvaluationIsOneGreedyEpisodeOfEachInstance) {
  for (const Isa isa : machine_isas()) {
    for (const int episodes : {1, 31, 70}) {
      Rolled r(GetParam(), 16, 1, 25);
      const EnvironmentKernels& kernels = kernels_for(r.env, isa);
      std::vector<Line> scratch(kernels.rollout_scratch_bytes(r.network) / 64 + 1);
      std::vector<float> returns(static_cast<std::size_t>(padded(episodes)), -1.0f);
      std::vector<std::int32_t> lengths(returns.size(), -1);
      EvaluationArguments args{};
      args.config = r.config.data();
      args.key = 5;
      args.first_instance = 1000;
      args.num_episodes = episodes;
      args.network = &r.network;
      args.parameters = r.parameters.data();
      args.num_actions = r.num_actions;
      args.returns = returns.data();
      args.lengths = lengths.data();
      kernels.evaluate(args, 0, padded(episodes) / kGroup, scratch.data());
      const auto whole = returns;
      // Group by group it is the same.
      for (int g = 0; g < padded(episodes) / kGroup; ++g) kernels.evaluate(args, g, g + 1, scratch.data());
      EXPECT_EQ(returns, whole);
      for (int i = 0; i < episodes; ++i) {
        const auto at = static_cast<std::size_t>(i);
        EXPECT_GE(lengths[at], 1);
        EXPECT_LE(lengths[at], 25);
        if (r.env.id == "CartPole-v1" || r.env.id == "TestEndless-v0") {
          EXPECT_EQ(returns[at], static_cast<float>(lengths[at]));
        }
        if (r.env.id == "TestEndless-v0" || r.env.id == "Pendulum-v1") {
          EXPECT_EQ(lengths[at], 25);
        }
        if (r.env.id == "MountainCar-v0" || r.env.id == "Acrobot-v1") {
          EXPECT_EQ(returns[at], static_cast<float>(-lengths[at]));
        }
      }
      args.max_steps = 3;
      kernels.evaluate(args, 0, padded(episodes) / kGroup, scratch.data());
      for (int i = 0; i < episodes; ++i) EXPECT_LE(lengths[static_cast<std::size_t>(i)], 3);
    }
  }
}

}  // namespace
}  // namespace millrace
