// lambda-returns against their definition: a mixture of n-step returns, written out; and the two deviations
// of the original code against its own recursion.
#include "kernels/returns.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace millrace {
namespace {

/// One instance's chunk: values[t] is V(s_t) for t = 0 .. T.
struct Chunk {
  std::vector<float> rewards, values, final_values;
  std::vector<bool> terminated, truncated, quarantined;
  [[nodiscard]] std::size_t steps() const { return rewards.size(); }
};

Chunk random_chunk(std::mt19937& random, std::size_t steps, double end_probability) {
  std::normal_distribution<float> normal(0.0f, 2.0f);
  std::bernoulli_distribution end(end_probability);
  Chunk chunk;
  for (std::size_t t = 0; t < steps; ++t) {
    chunk.rewards.push_back(normal(random));
    chunk.values.push_back(normal(random));
    chunk.terminated.push_back(end(random));
    chunk.truncated.push_back(end(random));
    chunk.quarantined.push_back(end(random));
    // The rollout keeps a final value only where the episode was truncated and nothing else.
    const bool cut = chunk.truncated[t] && !chunk.terminated[t] && !chunk.quarantined[t];
    chunk.final_values.push_back(cut ? normal(random) : 0.0f);
    if (chunk.quarantined[t]) chunk.rewards[t] = 0.0f;
  }
  chunk.values.push_back(normal(random));
  return chunk;
}

std::vector<float> recursive(const Chunk& chunk, const ReturnRules& rules) {
  const std::size_t steps = chunk.steps();
  std::vector<float> targets(steps);
  auto recursion = LambdaReturn<float>::start(chunk.values[steps]);
  for (std::size_t t = steps; t-- > 0;) {
    targets[t] =
        recursion.take(rules, chunk.rewards[t], static_cast<bool>(chunk.terminated[t]),
                       static_cast<bool>(chunk.truncated[t]), static_cast<bool>(chunk.quarantined[t]),
                       chunk.values[t], chunk.final_values[t], t + 1 == steps);
  }
  return targets;
}

/// sum over n of (1 - lambda) lambda^(n-1) G^(n), where G^(n) is the n-step return; the last one, at the end
/// of the episode or of the chunk, has all the weight that is left. A quarantined step stands for its state's
/// value: a return that comes to it bootstraps there.
double mixture(const Chunk& chunk, std::size_t t, double gamma, double lambda) {
  double total = 0.0, weight = 1.0, rewards = 0.0, discount = 1.0;
  for (std::size_t k = t; k < chunk.steps(); ++k) {
    rewards += discount * static_cast<double>(chunk.rewards[k]);
    discount *= gamma;
    if (chunk.terminated[k]) return total + weight * rewards;
    if (chunk.truncated[k])
      return total + weight * (rewards + discount * static_cast<double>(chunk.final_values[k]));
    const bool last = k + 1 == chunk.steps() || chunk.quarantined[k + 1];
    const double n_step = rewards + discount * static_cast<double>(chunk.values[k + 1]);
    if (last) return total + weight * n_step;
    total += weight * (1.0 - lambda) * n_step;
    weight *= lambda;
  }
  return total;
}

TEST(LambdaReturns, AreTheMixtureOfNStepReturns) {
  std::mt19937 random(1);
  for (const double gamma : {0.0, 0.9, 0.99, 1.0}) {
    for (const double lambda : {0.0, 0.5, 0.95, 1.0}) {
      for (const std::size_t steps : {1u, 2u, 3u, 17u, 64u}) {
        for (int repeat = 0; repeat < 20; ++repeat) {
          const Chunk chunk = random_chunk(random, steps, repeat % 4 * 0.07);
          const auto targets =
              recursive(chunk, {static_cast<float>(gamma), static_cast<float>(lambda), false, false});
          for (std::size_t t = 0; t < steps; ++t) {
            if (chunk.quarantined[t]) continue;
            const double expected = mixture(chunk, t, static_cast<double>(static_cast<float>(gamma)),
                                            static_cast<double>(static_cast<float>(lambda)));
            ASSERT_NEAR(static_cast<double>(targets[t]), expected, 3e-5 * (1.0 + std::abs(expected)))
                << "step " << t << " of " << steps << ", gamma " << gamma << ", lambda " << lambda;
          }
        }
      }
    }
  }
}

TEST(LambdaReturns, NothingPassesAnEnd) {
  std::mt19937 random(2);
  Chunk chunk = random_chunk(random, 9, 0.0);
  const ReturnRules rules{0.9f, 0.8f, false, false};
  for (const int kind : {0, 1, 2}) {
    Chunk cut = chunk;
    (kind == 0 ? cut.terminated : kind == 1 ? cut.truncated : cut.quarantined)[4] = true;
    const auto before = recursive(cut, rules);
    for (std::size_t t = 5; t < 9; ++t) cut.rewards[t] += 1000.0f;
    for (std::size_t t = 5; t < 10; ++t) cut.values[t] -= 1e6f;
    const auto after = recursive(cut, rules);
    for (std::size_t t = 0; t < 4; ++t) EXPECT_EQ(before[t], after[t]) << "kind " << kind << " step " << t;
    if (kind != 2) {
      EXPECT_EQ(before[4], after[4]) << "kind " << kind;
    }
    EXPECT_NE(before[6], after[6]);
  }
}

TEST(LambdaReturns, AValueThatIsNotFiniteBehindAnEndStaysThere) {
  std::mt19937 random(3);
  Chunk chunk = random_chunk(random, 6, 0.0);
  chunk.terminated[2] = true;
  chunk.values[3] = std::nanf("");
  const auto targets = recursive(chunk, {0.9f, 0.8f, false, false});
  for (std::size_t t = 0; t < 3; ++t) EXPECT_TRUE(std::isfinite(targets[t]));
}

/// The recursion of the authors' code, in double. The scan over t = T-2 .. 0 carries a return and a value; it
/// starts with last_q = (1 - done[T-1]) max Q(s_T) as that value, which therefore serves at T-2 as well.
/// `done` is terminated or truncated.
std::vector<double> original(const Chunk& chunk, double gamma, double lambda) {
  const std::size_t steps = chunk.steps();
  std::vector<double> targets(steps);
  const auto done = [&](std::size_t t) { return chunk.terminated[t] || chunk.truncated[t] ? 1.0 : 0.0; };
  const auto reward = [&](std::size_t t) { return static_cast<double>(chunk.rewards[t]); };
  double next_value = static_cast<double>(chunk.values[steps]) * (1.0 - done(steps - 1));
  double lambda_return = reward(steps - 1) + gamma * next_value;
  targets[steps - 1] = lambda_return;
  for (std::size_t t = steps - 1; t-- > 0;) {
    const double bootstrap = reward(t) + gamma * (1.0 - done(t)) * next_value;
    const double delta = lambda_return - next_value;
    lambda_return = bootstrap + gamma * lambda * delta;
    lambda_return = (1.0 - done(t)) * lambda_return + done(t) * reward(t);
    next_value = static_cast<double>(chunk.values[t]);
    targets[t] = lambda_return;
  }
  return targets;
}

TEST(LambdaReturns, CompatibilityHasTheOriginalsTwoDeviations) {
  std::mt19937 random(4);
  int differing = 0;
  for (const std::size_t steps : {1u, 2u, 3u, 8u, 33u}) {
    for (int repeat = 0; repeat < 50; ++repeat) {
      Chunk chunk = random_chunk(random, steps, repeat % 3 * 0.1);
      chunk.quarantined.assign(steps, false);
      const auto targets = recursive(chunk, {0.97f, 0.65f, true, true});
      const auto expected = original(chunk, static_cast<double>(0.97f), static_cast<double>(0.65f));
      const auto right = recursive(chunk, {0.97f, 0.65f, false, false});
      for (std::size_t t = 0; t < steps; ++t) {
        ASSERT_NEAR(static_cast<double>(targets[t]), expected[t], 3e-5 * (1.0 + std::abs(expected[t])))
            << "step " << t << " of " << steps;
        differing += std::abs(targets[t] - right[t]) > 1e-3f;
      }
    }
  }
  EXPECT_GT(differing, 100) << "the deviations show";
}

}  // namespace
}  // namespace millrace
