// Random streams: first states are as different among instances, episodes and seeds as chance makes them,
// uniform, and uncorrelated between neighbours; a rank's instances are a part of the whole.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <tuple>
#include <vector>

#include "tests/kernels/stepped.hpp"

namespace millrace {
namespace {

using stepping::Stepped;
using testing_environments::environment;

using State = std::vector<float>;

State first_state(const EnvironmentDescription& env, std::uint64_t seed, std::uint32_t instance,
                  std::uint32_t step) {
  State state(static_cast<std::size_t>(env.state_words));
  env.rules.reset(env.default_config.data(), seed, instance, step, state.data());
  return state;
}

struct Bounds {
  const char* id;
  /// Fields of the state that are drawn, and how.
  std::vector<std::tuple<std::size_t, float, float>> drawn;
};

std::vector<Bounds> bounds() {
  return {{"CartPole-v1", {{0, -0.05f, 0.05f}, {1, -0.05f, 0.05f}, {2, -0.05f, 0.05f}, {3, -0.05f, 0.05f}}},
          {"MountainCar-v0", {{0, -0.6f, -0.4f}}},
          {"Acrobot-v1", {{0, -0.1f, 0.1f}, {1, -0.1f, 0.1f}, {2, -0.1f, 0.1f}, {3, -0.1f, 0.1f}}},
          {"Pendulum-v1", {{0, -3.1415927f, 3.1415927f}, {1, -1.0f, 1.0f}}}};
}

/// 50 x 50 x 40 = 10^5 first states: neighbouring instances, step counts (of an episode's start) and seeds.
constexpr std::uint32_t kInstances = 50, kSteps = 50, kSeeds = 40;

std::vector<State> first_states(const EnvironmentDescription& env) {
  std::vector<State> states;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    for (std::uint32_t step = 0; step < kSteps; ++step) {
      for (std::uint32_t i = 0; i < kInstances; ++i) states.push_back(first_state(env, seed, i, step));
    }
  }
  return states;
}

double correlation(const std::vector<State>& states, std::size_t field, std::size_t distance, std::size_t row,
                   double mean, double variance) {
  double sum = 0.0;
  std::size_t pairs = 0;
  for (std::size_t k = 0; k + distance < states.size(); ++k) {
    if (k / row != (k + distance) / row) continue;
    sum += (static_cast<double>(states[k][field]) - mean) *
           (static_cast<double>(states[k + distance][field]) - mean);
    ++pairs;
  }
  // In standard deviations of what independent ones would give.
  return sum / static_cast<double>(pairs) / variance * std::sqrt(static_cast<double>(pairs));
}

class FirstStates : public testing::TestWithParam<Bounds> {};
INSTANTIATE_TEST_SUITE_P(Environments, FirstStates, testing::ValuesIn(bounds()), [](const auto& parameter) {
  std::string name = parameter.param.id;
  std::erase(name, '-');
  return name;
});

TEST_P(FirstStates, RepeatNoMoreOftenThanByChance) {
  const EnvironmentDescription& env = environment(GetParam().id);
  std::vector<State> states = first_states(env);
  std::sort(states.begin(), states.end());
  std::size_t equal = 0;
  for (std::size_t i = 1; i < states.size(); ++i) equal += states[i] == states[i - 1] ? 1 : 0;
  // n (n - 1) / 2 pairs, each equal with probability 2^-24 for each drawn field. Rounding to the field's own
  // grid makes equal ones at most a few times likelier; only for a single field do any occur.
  const double n = static_cast<double>(states.size());
  const double expected =
      n * (n - 1.0) / 2.0 * std::pow(2.0, -24.0 * static_cast<double>(GetParam().drawn.size()));
  const double grid = GetParam().drawn.size() == 1 ? 8.0 : 1.0;
  EXPECT_LE(static_cast<double>(equal), grid * expected + 6.0 * std::sqrt(grid * expected))
      << "expected " << expected;
}

TEST_P(FirstStates, AreUniform) {
  const EnvironmentDescription& env = environment(GetParam().id);
  const std::vector<State> states = first_states(env);
  for (const auto& [field, low, high] : GetParam().drawn) {
    constexpr std::size_t kBins = 50;
    std::vector<int> bins(kBins);
    for (const State& state : states) {
      ASSERT_GE(state[field], low);
      ASSERT_LE(state[field], high);
      const auto bin =
          static_cast<std::size_t>((state[field] - low) / (high - low) * static_cast<float>(kBins));
      ++bins[std::min(bin, kBins - 1)];
    }
    double chi_square = 0.0;
    const double expected = static_cast<double>(states.size()) / kBins;
    for (const int bin : bins) chi_square += std::pow(bin - expected, 2) / expected;
    EXPECT_LT(chi_square, 85.4) << "field " << field << ": 49 degrees of freedom, p = 0.001";
  }
}

TEST_P(FirstStates, OfNeighboursAreUncorrelated) {
  const EnvironmentDescription& env = environment(GetParam().id);
  const std::vector<State> states = first_states(env);
  for (const auto& [field, low, high] : GetParam().drawn) {
    const double mean = (static_cast<double>(low) + static_cast<double>(high)) / 2.0;
    const double variance = std::pow(static_cast<double>(high) - static_cast<double>(low), 2) / 12.0;
    const std::size_t step = kInstances, seed = std::size_t{kInstances} * kSteps;
    EXPECT_LT(std::abs(correlation(states, field, 1, step, mean, variance)), 4.0)
        << "instances, field " << field;
    EXPECT_LT(std::abs(correlation(states, field, step, seed, mean, variance)), 4.0)
        << "episodes, field " << field;
    EXPECT_LT(std::abs(correlation(states, field, seed, states.size(), mean, variance)), 4.0)
        << "seeds, field " << field;
  }
  if (GetParam().drawn.size() < 2) return;
  // Within a state, too: field by field.
  for (std::size_t f = 0; f + 1 < GetParam().drawn.size(); ++f) {
    const auto& [first, low, high] = GetParam().drawn[f];
    const auto& [second, other_low, other_high] = GetParam().drawn[f + 1];
    double sum = 0.0;
    for (const State& state : states) {
      sum += (state[first] - (low + high) / 2) / (high - low) *
             (state[second] - (other_low + other_high) / 2) / (other_high - other_low);
    }
    EXPECT_LT(std::abs(12.0 * sum / std::sqrt(static_cast<double>(states.size()))), 4.0) << "fields " << f;
  }
}

TEST(Ranks, TheirInstancesAreAPartOfTheWhole) {
  // Two ranks of 48 and 80 instances are one run of 128: random actions, resets, noise.
  for (const char* id : {"CartPole-v1", "Pendulum-v1", "TestFragile-v0", "TestTwoAgents-v0"}) {
    const EnvironmentDescription& env = environment(id);
    const EnvironmentKernels& kernels = kernels_for(env, best_isa());
    Stepped whole(env, kernels, env.default_config, 128, 9, 0, true);
    Stepped first(env, kernels, env.default_config, 48, 9, 0, true);
    Stepped second(env, kernels, env.default_config, 80, 9, 48, true);
    for (Stepped* part : {&whole, &first, &second}) part->step(70, nullptr);
    for (int row = 0; row < whole.layout().rows; ++row) {
      for (int i = 0; i < 128; ++i) {
        const Stepped& part = i < 48 ? first : second;
        ASSERT_EQ(whole.word(whole.layout().row(row), i),
                  part.word(part.layout().row(row), i < 48 ? i : i - 48))
            << id << " row " << row << " instance " << i;
      }
    }
  }
}

TEST(Ranks, NoTwoInstancesLiveTheSameLife) {
  const EnvironmentDescription& env = environment("CartPole-v1");
  std::set<std::vector<std::uint32_t>> lives;
  std::size_t count = 0;
  for (const std::uint32_t first : {0u, 2048u, 4096u, 0xFFFFF800u}) {
    Stepped part(env, kernels_for(env, best_isa()), env.default_config, 2048, 9, first);
    part.step(5, nullptr);
    for (int i = 0; i < 2048; ++i, ++count) {
      std::vector<std::uint32_t> state;
      for (int w = 0; w < 4; ++w) state.push_back(part.word(part.layout().row(w), i));
      lives.insert(state);
    }
  }
  EXPECT_EQ(lives.size(), count);
}

TEST(Purposes, AreSeparateStreams) {
  std::set<std::uint32_t> words;
  for (const std::uint32_t base : {0u, static_cast<std::uint32_t>(kEvaluation)}) {
    for (const std::uint32_t purpose : {kReset, kNoise, kAction, kSampling, kInitialisation, kStagger}) {
      Draws draws(1, 2, 3, purpose + base);
      words.insert(draws.bits());
    }
  }
  EXPECT_EQ(words.size(), 12u);
}

}  // namespace
}  // namespace millrace
