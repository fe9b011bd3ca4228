// Stepping: every instruction set, chunk length and split of groups has the bits of the scalar rules;
// automatic reset, time limit and statistics are those of a plain recount.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "tests/kernels/stepped.hpp"

namespace millrace {
namespace {

using namespace stepping;
using testing_environments::environment;
using testing_environments::machine_isas;

std::vector<Isa> all_tables() {
  std::vector<Isa> isas = machine_isas();
  isas.insert(isas.begin(), Isa::kReference);
  return isas;
}

class Stepping : public testing::TestWithParam<const char*> {
 protected:
  const EnvironmentDescription& env = environment(GetParam());
};
INSTANTIATE_TEST_SUITE_P(Environments, Stepping, testing::ValuesIn(kEnvironments), [](const auto& parameter) {
  std::string name = parameter.param;
  std::erase(name, '-');
  return name;
});

TEST_P(Stepping, EveryTableHasTheBitsOfTheReference) {
  for (const bool given : {false, true}) {
    for (const int num_envs : {1, 31, 33, 2047}) {
      const int steps = num_envs > 1000 ? 45 : 90;
      const auto config = config_with_limit(env, 37);
      Stepped reference(env, kernels_for(env, Isa::kReference), config, num_envs, 99, 5, true);
      std::vector<Snapshot> expected;
      for (int k = 0; k < steps; ++k) {
        const auto actions = actions_of_step(env, config, reference.layout().stride, k);
        reference.step(1, given ? &actions : nullptr);
        expected.push_back(reference.snapshot());
      }
      for (const Isa isa : machine_isas()) {
        Stepped other(env, kernels_for(env, isa), config, num_envs, 99, 5, true);
        for (int k = 0; k < steps; ++k) {
          const auto actions = actions_of_step(env, config, other.layout().stride, k);
          other.step(1, given ? &actions : nullptr);
          ASSERT_EQ(other.snapshot(), expected[static_cast<std::size_t>(k)])
              << to_string(isa) << ", " << num_envs << " instances, step " << k
              << (given ? ", given" : ", random");
        }
        ASSERT_EQ(other.instances(), reference.instances())
            << to_string(isa) << ", " << num_envs << " instances";
      }
    }
  }
}

TEST_P(Stepping, ChunkLengthAndSplitOfGroupsChangeNothing) {
  constexpr int kSteps = 64;
  const int num_envs = 133;
  const auto config = config_with_limit(env, 23);
  std::vector<std::vector<std::uint32_t>> per_step;
  for (int k = 0; k < kSteps; ++k) per_step.push_back(actions_of_step(env, config, padded(num_envs), k));
  const auto block = [&](int first, int count) {
    std::vector<std::uint32_t> actions;
    for (int k = first; k < first + count; ++k) {
      const auto& step = per_step[static_cast<std::size_t>(k)];
      actions.insert(actions.end(), step.begin(), step.end());
    }
    return actions;
  };
  for (const bool given : {false, true}) {
    for (const Isa isa : all_tables()) {
      Stepped whole(env, kernels_for(env, isa), config, num_envs, 7);
      const auto all = block(0, kSteps);
      whole.step(kSteps, given ? &all : nullptr);
      for (const int chunk : {1, 8, 64}) {
        for (const std::vector<int>& cuts : {std::vector<int>{}, {1}, {4, 5}, {1, 2, 3, 4, 5, 6, 7, 8}}) {
          Stepped split(env, kernels_for(env, isa), config, num_envs, 7);
          for (int k = 0; k < kSteps; k += chunk) {
            const auto actions = block(k, chunk);
            split.step(chunk, given ? &actions : nullptr, cuts);
          }
          ASSERT_EQ(split.instances(), whole.instances()) << to_string(isa) << ", chunk " << chunk;
          ASSERT_EQ(split.snapshot(), whole.snapshot()) << to_string(isa) << ", chunk " << chunk;
        }
      }
    }
  }
}

TEST_P(Stepping, WithGivenActionsATrajectoryDependsOnNeitherNumberNorPlaceOfInstances) {
  const auto config = config_with_limit(env, 29);
  for (const Isa isa : machine_isas()) {
    Stepped few(env, kernels_for(env, isa), config, 1, 3, 100);
    Stepped many(env, kernels_for(env, isa), config, 500, 3, 100);
    Stepped shifted(env, kernels_for(env, isa), config, 41, 3, 60);  // its instance 40 is the others' 0
    for (int k = 0; k < 80; ++k) {
      const auto one = actions_of_step(env, config, few.layout().stride, k);
      const auto all = actions_of_step(env, config, many.layout().stride, k);
      auto moved = actions_of_step(env, config, shifted.layout().stride, k);
      const int rows = env.action_words * env.num_agents;
      for (int r = 0; r < rows; ++r) {
        moved[static_cast<std::size_t>(r * shifted.layout().stride + 40)] =
            one[static_cast<std::size_t>(r * few.layout().stride)];
      }
      few.step(1, &one);
      many.step(1, &all);
      shifted.step(1, &moved);
      for (int row = 0; row < few.layout().rows; ++row) {
        const std::uint32_t value = few.word(few.layout().row(row), 0);
        ASSERT_EQ(value, many.word(many.layout().row(row), 0)) << "row " << row << " step " << k;
        ASSERT_EQ(value, shifted.word(shifted.layout().row(row), 40)) << "row " << row << " step " << k;
      }
    }
  }
}

/// Steps one instance by the scalar rules and keeps the books in the plainest way.
class Recount {
 public:
  Recount(const EnvironmentDescription& environment, const std::vector<std::byte>& config, std::uint64_t key,
          std::uint32_t instance)
      : env_(environment),
        config_(config),
        key_(key),
        instance_(instance),
        state_(static_cast<std::size_t>(environment.state_words)),
        returns(static_cast<std::size_t>(environment.num_agents)),
        completed_returns(returns) {
    env_.rules.reset(config_.data(), key_, instance_, 0, state_.data());
  }

  /// `actions`: [agent][word].
  void step(const std::vector<std::uint32_t>& actions) {
    rewards.assign(returns.size(), 0.0f);
    const bool terminated = env_.rules.step(config_.data(), key_, instance_, count_, state_.data(),
                                            actions.data(), rewards.data());
    ++count_;
    ++length;
    const int limit = env_.rules.max_episode_steps(config_.data());
    const bool truncated = limit > 0 && length == limit;
    flags = (terminated ? static_cast<std::uint32_t>(kTerminated) : 0u) |
            (truncated ? static_cast<std::uint32_t>(kTruncated) : 0u);
    final_observation = observation();
    for (std::size_t a = 0; a < returns.size(); ++a) returns[a] += rewards[a];
    if (flags == 0) return;
    ++completed;
    completed_length += static_cast<std::uint32_t>(length);
    for (std::size_t a = 0; a < returns.size(); ++a) {
      completed_returns[a] += returns[a];
      returns[a] = 0.0f;
    }
    length = 0;
    env_.rules.reset(config_.data(), key_, instance_, count_, state_.data());
  }
  [[nodiscard]] std::vector<std::uint32_t> observation() const {
    const auto words = static_cast<std::size_t>(env_.observation_words);
    std::vector<std::uint32_t> all(words * returns.size());
    for (std::size_t a = 0; a < returns.size(); ++a) {
      env_.rules.observe(config_.data(), state_.data(), static_cast<int>(a), all.data() + a * words);
    }
    return all;
  }
  [[nodiscard]] const std::vector<std::uint32_t>& state() const { return state_; }

 private:
  const EnvironmentDescription& env_;
  const std::vector<std::byte>& config_;
  std::uint64_t key_;
  std::uint32_t instance_, count_ = 0;
  std::vector<std::uint32_t> state_;

 public:
  std::vector<float> returns, completed_returns, rewards;
  std::vector<std::uint32_t> final_observation;
  std::uint32_t flags = 0, completed = 0, completed_length = 0;
  int length = 0;
};

TEST_P(Stepping, ResetsLimitsAndStatisticsAreThoseOfAPlainRecount) {
  constexpr int kEnvs = 45;
  const auto config = config_with_limit(env, 13);
  Stepped vectors(env, kernels_for(env, best_isa()), config, kEnvs, 21, 1000);
  std::vector<Recount> plain;
  for (int i = 0; i < kEnvs; ++i) plain.emplace_back(env, config, 21, 1000u + static_cast<std::uint32_t>(i));
  const InstanceLayout& layout = vectors.layout();
  const auto stride = static_cast<std::size_t>(layout.stride);
  std::uint64_t truncations = 0;
  for (int k = 0; k < 150; ++k) {
    const auto actions = actions_of_step(env, config, layout.stride, k);
    vectors.step(1, &actions);
    for (int i = 0; i < kEnvs; ++i) {
      const auto at = static_cast<std::size_t>(i);
      std::vector<std::uint32_t> own;
      for (int a = 0; a < env.num_agents; ++a) {
        for (int w = 0; w < env.action_words; ++w) {
          own.push_back(actions[static_cast<std::size_t>(w * env.num_agents + a) * stride + at]);
        }
      }
      Recount& r = plain[at];
      r.step(own);
      truncations += (r.flags & kTruncated) != 0 ? 1 : 0;
      ASSERT_EQ(vectors.flags()[at], r.flags) << "instance " << i << " step " << k;
      const auto observation = r.observation();
      for (std::size_t row = 0; row < observation.size(); ++row) {
        ASSERT_EQ(vectors.observations()[row * stride + at], observation[row]) << "step " << k;
        ASSERT_EQ(vectors.final_observations()[row * stride + at], r.final_observation[row]) << "step " << k;
      }
      for (int w = 0; w < env.state_words; ++w) {
        ASSERT_EQ(vectors.word(layout.row(w), i), r.state()[static_cast<std::size_t>(w)]) << "step " << k;
      }
      ASSERT_EQ(vectors.word(layout.episode_length(), i), static_cast<std::uint32_t>(r.length));
      for (int a = 0; a < env.num_agents; ++a) {
        const auto agent = static_cast<std::size_t>(a);
        ASSERT_EQ(vectors.rewards()[agent * stride + at], r.rewards[agent]);
        ASSERT_EQ(vectors.real(layout.episode_return(a), i), r.returns[agent]) << "step " << k;
      }
    }
  }
  for (int i = 0; i < kEnvs; ++i) {
    const Recount& r = plain[static_cast<std::size_t>(i)];
    EXPECT_EQ(vectors.word(layout.completed(), i), r.completed);
    EXPECT_EQ(vectors.word(layout.completed_length(), i), r.completed_length);
    EXPECT_EQ(vectors.word(layout.quarantined(), i), 0u);
    EXPECT_GT(r.completed, 0u);
    for (int a = 0; a < env.num_agents; ++a) {
      EXPECT_EQ(vectors.real(layout.completed_return(a), i),
                r.completed_returns[static_cast<std::size_t>(a)]);
    }
  }
  if (env.id != "TestCatch-v0") {
    EXPECT_GT(truncations, 0u) << "the test saw no time limit";
  }
}

TEST_P(Stepping, WithoutALimitNothingIsTruncated) {
  const auto config = config_with_limit(env, 0);
  Stepped vectors(env, kernels_for(env, best_isa()), config, 20, 2);
  for (int k = 0; k < 1200; ++k) {
    vectors.step(1, nullptr);
    for (int i = 0; i < 20; ++i) ASSERT_EQ(vectors.flags()[static_cast<std::size_t>(i)] & kTruncated, 0u);
  }
}

TEST_P(Stepping, OutputsThatAreNotWantedMayBeNull) {
  const auto config = config_with_limit(env, 11);
  const EnvironmentKernels& kernels = kernels_for(env, best_isa());
  Stepped whole(env, kernels, config, 30, 4);
  Stepped lean(env, kernels, config, 30, 4);
  StepArguments args{};
  args.config = config.data();
  args.key = 4;
  args.layout = lean.layout();
  args.instances = lean.instances().data();
  args.num_steps = 40;
  args.source = ActionSource::kRandom;
  std::vector<std::uint32_t> observations(whole.observations().size());
  args.observations = observations.data();
  kernels.step(args, 0, lean.groups());
  whole.step(40, nullptr);
  EXPECT_EQ(lean.instances(), whole.instances());
  EXPECT_EQ(observations, whole.observations());
  whole.observe();
  EXPECT_EQ(observations, whole.observations()) << "observe() shows what the last step left";
}

TEST(StaggeredStart, SpreadsTheFirstEndsAndCountsOnlyWholeEpisodes) {
  const EnvironmentDescription& env = environment("TestEndless-v0");
  constexpr int kEnvs = 4000, kLimit = 20;
  Stepped vectors(env, kernels_for(env, best_isa()), config_with_limit(env, kLimit), kEnvs, 12, 0, true);
  std::vector<int> first_ends(kLimit + 1);
  for (int k = 1; k <= kLimit; ++k) {
    vectors.step(1, nullptr);
    for (int i = 0; i < kEnvs; ++i) {
      first_ends[static_cast<std::size_t>(k)] +=
          (vectors.flags()[static_cast<std::size_t>(i)] & kTruncated) != 0;
    }
  }
  double chi_square = 0.0;
  for (int k = 1; k <= kLimit; ++k) {
    const double expected = static_cast<double>(kEnvs) / kLimit;
    chi_square += std::pow(first_ends[static_cast<std::size_t>(k)] - expected, 2) / expected;
  }
  EXPECT_EQ(std::accumulate(first_ends.begin(), first_ends.end(), 0), kEnvs);
  EXPECT_LT(chi_square, 43.8) << "19 degrees of freedom, p = 0.001";
  vectors.step(2 * kLimit, nullptr);
  for (int i = 0; i < kEnvs; ++i) {
    const std::uint32_t completed = vectors.word(vectors.layout().completed(), i);
    EXPECT_GE(completed, 2u);
    EXPECT_EQ(vectors.word(vectors.layout().completed_length(), i), completed * kLimit);
    EXPECT_EQ(vectors.real(vectors.layout().completed_return(0), i), static_cast<float>(completed * kLimit));
  }
}

TEST(Tables, BuiltInEnvironmentsFillAVectorRegister) {
  for (const char* id : {"CartPole-v1", "MountainCar-v0", "Acrobot-v1", "Pendulum-v1"}) {
    const EnvironmentDescription& env = environment(id);
    for (const EnvironmentKernels* kernels : env.kernels) {
      const int expected = kernels->isa == Isa::kReference  ? 1
                           : kernels->isa == Isa::kBaseline ? 4
                           : kernels->isa == Isa::kAvx2     ? 8
                                                            : 16;
      EXPECT_EQ(kernels->width, expected) << id << " " << to_string(kernels->isa);
    }
#if defined(__x86_64__)
    EXPECT_EQ(env.kernels.size(), 4u);
#endif
  }
  for (const EnvironmentKernels* kernels : environment("TestCatch-v0").kernels) EXPECT_EQ(kernels->width, 1);
}

}  // namespace
}  // namespace millrace
