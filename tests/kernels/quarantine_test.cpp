// A value that is not finite quarantines its instance alone: the others' bits are those of a run without it.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/stepped.hpp"

namespace millrace {
namespace {

using namespace stepping;
using testing_environments::environment;
using testing_environments::machine_isas;

std::vector<std::byte> planted(const EnvironmentDescription& env, int plant, std::uint64_t key,
                               std::uint32_t instance, int at_step) {
  std::vector<std::uint32_t> state(static_cast<std::size_t>(env.state_words));
  env.rules.reset(env.default_config.data(), key, instance, 0, state.data());
  return make_environment_config(env, {{"plant", ParameterType::kInt, static_cast<double>(plant)},
                                       {"target", ParameterType::kInt, static_cast<double>(state[0])},
                                       {"at_step", ParameterType::kInt, static_cast<double>(at_step)}});
}

class Quarantine : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(StateRewardObservation, Quarantine, testing::Values(1, 2, 3));

TEST_P(Quarantine, HitsOneInstanceOnceAndNoOther) {
  const EnvironmentDescription& env = environment("TestFragile-v0");
  constexpr int kEnvs = 70, kVictim = 37, kAt = 3;
  std::vector<Isa> isas = machine_isas();
  isas.push_back(Isa::kReference);
  for (const Isa isa : isas) {
    const auto config = planted(env, GetParam(), 8, kVictim, kAt);
    const auto sound = planted(env, 0, 8, kVictim, kAt);
    Stepped broken(env, kernels_for(env, isa), config, kEnvs, 8);
    Stepped clean(env, kernels_for(env, isa), sound, kEnvs, 8);
    for (int k = 1; k <= 60; ++k) {
      const auto actions = actions_of_step(env, config, broken.layout().stride, k);
      broken.step(1, &actions);
      clean.step(1, &actions);
      for (int i = 0; i < kEnvs; ++i) {
        const auto at = static_cast<std::size_t>(i);
        if (i == kVictim) {
          ASSERT_EQ((broken.flags()[at] & kQuarantined) != 0, k == kAt) << "step " << k;
          if (k == kAt) {
            EXPECT_EQ(broken.word(broken.layout().episode_length(), i), 0u);
            EXPECT_EQ(broken.real(broken.layout().episode_return(0), i), 0.0f);
            EXPECT_EQ(broken.word(broken.layout().completed(), i), 0u)
                << "a quarantined episode is not counted";
            // Its new state is what the reset of that step count gives.
            std::vector<std::uint32_t> fresh(static_cast<std::size_t>(env.state_words));
            env.rules.reset(config.data(), 8, kVictim, kAt, fresh.data());
            for (int w = 0; w < env.state_words; ++w) {
              EXPECT_EQ(broken.word(broken.layout().row(w), i), fresh[static_cast<std::size_t>(w)]);
            }
          }
          for (int o = 0; o < env.observation_words; ++o) {
            float value;
            std::memcpy(&value,
                        &broken.observations()[static_cast<std::size_t>(o * broken.layout().stride) + at], 4);
            ASSERT_TRUE(std::isfinite(value)) << "step " << k;
          }
          ASSERT_TRUE(std::isfinite(broken.real(broken.layout().episode_return(0), i)));
          continue;
        }
        ASSERT_EQ(broken.flags()[at], clean.flags()[at]);
        ASSERT_EQ(broken.rewards()[at], clean.rewards()[at]);
        for (int row = 0; row < broken.layout().rows; ++row) {
          ASSERT_EQ(broken.word(broken.layout().row(row), i), clean.word(clean.layout().row(row), i))
              << "instance " << i << " row " << row << " step " << k;
        }
      }
    }
    std::uint32_t total = 0;
    for (int i = 0; i < kEnvs; ++i) total += broken.word(broken.layout().quarantined(), i);
    EXPECT_EQ(total, 1u);
    EXPECT_EQ(broken.word(broken.layout().quarantined(), kVictim), 1u);
    EXPECT_TRUE(std::isfinite(broken.real(broken.layout().completed_return(0), kVictim)));
  }
}

TEST(QuarantineLimits, LargeFiniteValuesAreSound) {
  // Two values of 3e38 have an infinite sum; neither is a fault.
  const EnvironmentDescription& env = environment("TestEndless-v0");
  const auto config = make_environment_config(
      env, {{"reward", ParameterType::kFloat, 3.4e38}, {"max_episode_steps", ParameterType::kInt, 1.0}});
  Stepped vectors(env, kernels_for(env, best_isa()), config, 17, 1);
  vectors.step(1, nullptr);
  for (int i = 0; i < 17; ++i) EXPECT_EQ(vectors.flags()[static_cast<std::size_t>(i)], kTruncated);
}

TEST(QuarantineLimits, VectorRulesAreWatchedLaneByLane) {
  // The planted state sits in memory: an instance whose velocity is infinite before the step.
  const EnvironmentDescription& env = environment("CartPole-v1");
  for (const Isa isa : machine_isas()) {
    for (const int victim : {0, 5, 18}) {
      Stepped broken(env, kernels_for(env, isa), env.default_config, 19, 6);
      Stepped clean(env, kernels_for(env, isa), env.default_config, 19, 6);
      const float bad = std::nanf("");
      std::memcpy(&broken.instances()[broken.layout().row(1) + static_cast<std::size_t>(victim)], &bad,
                  sizeof(bad));
      for (int k = 0; k < 40; ++k) {
        const auto actions = actions_of_step(env, env.default_config, 32, k);
        broken.step(1, &actions);
        clean.step(1, &actions);
        for (int i = 0; i < 19; ++i) {
          const std::uint32_t flags = broken.flags()[static_cast<std::size_t>(i)];
          ASSERT_EQ((flags & kQuarantined) != 0, i == victim && k == 0) << to_string(isa) << " step " << k;
          if (i == victim) continue;
          ASSERT_EQ(flags, clean.flags()[static_cast<std::size_t>(i)]);
          for (int row = 0; row < broken.layout().rows; ++row) {
            ASSERT_EQ(broken.word(broken.layout().row(row), i), clean.word(clean.layout().row(row), i));
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace millrace
