// Optimisers, clipping, averaging and the reduction over shards against plain recurrences in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "kernels/learner_kernels.hpp"
#include "tests/environments/registration.hpp"

namespace millrace {
namespace {

using testing_environments::machine_isas;

struct Settings {
  Optimiser kind;
  double beta1, beta2, epsilon, max_norm, average_decay;
};

/// The textbook's recurrences, as PyTorch's documentation writes them.
struct Plain {
  std::vector<double> weights, mean, square, average;

  void update(const Settings& s, std::int64_t before, double lr, const std::vector<double>& gradient) {
    double squared = 0.0;
    for (const double g : gradient) squared += g * g;
    const double norm = std::sqrt(squared);
    const double clip = s.max_norm > 0.0 && norm > s.max_norm ? s.max_norm / norm : 1.0;
    const double t = static_cast<double>(before + 1);
    const double rho_limit = 2.0 / (1.0 - s.beta2) - 1.0;
    const double power = std::pow(s.beta2, t);
    const double rho = rho_limit - 2.0 * t * power / (1.0 - power);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const double g = gradient[i] * clip;
      if (s.kind == Optimiser::kSgd) {
        mean[i] = s.beta1 * mean[i] + g;
        weights[i] -= lr * mean[i];
      } else {
        mean[i] = s.beta1 * mean[i] + (1.0 - s.beta1) * g;
        square[i] = s.beta2 * square[i] + (1.0 - s.beta2) * g * g;
        const double m = mean[i] / (1.0 - std::pow(s.beta1, t));
        const double root = std::sqrt(square[i] / (1.0 - power)) + s.epsilon;
        if (s.kind == Optimiser::kAdam) {
          weights[i] -= lr * m / root;
        } else if (rho > 5.0) {
          const double r = std::sqrt((rho - 4.0) * (rho - 2.0) * rho_limit /
                                     ((rho_limit - 4.0) * (rho_limit - 2.0) * rho));
          weights[i] -= lr * r * m / root;
        } else {
          weights[i] -= lr * m;
        }
      }
      average[i] = s.average_decay * average[i] + (1.0 - s.average_decay) * weights[i];
    }
  }
};

class OptimiserTest : public testing::TestWithParam<Settings> {};
INSTANTIATE_TEST_SUITE_P(Kinds, OptimiserTest,
                         testing::Values(Settings{Optimiser::kSgd, 0.0, 0.999, 1e-8, 0.0, 0.9},
                                         Settings{Optimiser::kSgd, 0.9, 0.999, 1e-8, 5.0, 0.99},
                                         Settings{Optimiser::kAdam, 0.9, 0.999, 1e-8, 0.0, 0.5},
                                         Settings{Optimiser::kAdam, 0.8, 0.99, 1e-5, 10.0, 0.99},
                                         Settings{Optimiser::kRadam, 0.9, 0.999, 1e-8, 10.0, 0.99},
                                         Settings{Optimiser::kRadam, 0.9, 0.95, 1e-6, 0.0, 0.9},
                                         Settings{Optimiser::kRadam, 0.9, 0.999, 1e-8, 1e9, 0.0}));

TEST_P(OptimiserTest, FollowsThePlainRecurrence) {
  const Settings& s = GetParam();
  constexpr int kUpdates = 50;
  // More than two chunks, and not a multiple of one.
  constexpr std::size_t kParameters = 2 * kChunkFloats + 16 * 5;
  const int chunks = static_cast<int>((kParameters + kChunkFloats - 1) / kChunkFloats);
  for (const Isa isa : machine_isas()) {
    for (const int shards : {1, 2, 8}) {
      const LearnerKernels& learner = *learner_kernels(isa);
      std::mt19937 random(7);
      std::normal_distribution<float> normal(0.0f, 0.3f);
      std::vector<float> weights(kParameters), mean(kParameters), square(kParameters), average(kParameters),
          gradient(kParameters), gradients(kParameters * static_cast<std::size_t>(shards));
      std::vector<double> norms(static_cast<std::size_t>(chunks));
      for (auto& w : weights) w = normal(random);
      average = weights;
      Plain plain{{weights.begin(), weights.end()},
                  std::vector<double>(kParameters),
                  std::vector<double>(kParameters),
                  {weights.begin(), weights.end()}};
      for (int u = 0; u < kUpdates; ++u) {
        std::vector<double> sum(kParameters);
        for (std::size_t i = 0; i < gradients.size(); ++i) {
          gradients[i] = normal(random) * (u % 5 == 0 ? 2.0f : 0.05f);
          sum[i % kParameters] += static_cast<double>(gradients[i]);
        }
        const double lr = 0.01 * (1.0 - u / 60.0);
        const ReduceArguments reduce{kParameters, shards, gradients.data(), gradient.data(), norms.data()};
        // In two parts, as two blocks would.
        learner.reduce(reduce, 1, chunks);
        learner.reduce(reduce, 0, 1);
        UpdateArguments update{
            kParameters,
            gradient.data(),
            norms.data(),
            weights.data(),
            mean.data(),
            square.data(),
            average.data(),
            make_optimiser_step(s.kind, u, lr, s.beta1, s.beta2, s.epsilon, s.max_norm, s.average_decay)};
        learner.update(update, 0, 2);
        learner.update(update, 2, chunks);
        plain.update(s, u, lr, sum);
        double squared = 0.0, expected = 0.0;
        for (const double part : norms) squared += part;
        for (const double g : sum) expected += g * g;
        ASSERT_NEAR(squared, expected, 1e-5 * expected);
      }
      for (std::size_t i = 0; i < kParameters; ++i) {
        const double scale = 0.01 * kUpdates;
        ASSERT_NEAR(static_cast<double>(weights[i]), plain.weights[i], 2e-4 * scale + 1e-6)
            << to_string(isa) << i;
        ASSERT_NEAR(static_cast<double>(average[i]), plain.average[i], 2e-4 * scale + 1e-6)
            << to_string(isa) << i;
        ASSERT_NEAR(static_cast<double>(mean[i]), plain.mean[i], 1e-4 * (1.0 + std::abs(plain.mean[i])));
      }
    }
  }
}

TEST(OptimiserSteps, RadamIsRectifiedFromTheSixthUpdate) {
  // For beta2 = 0.999: rho(5) = 4.99…, rho(6) = 5.99….
  for (int u = 0; u < 10; ++u) {
    const OptimiserStep step = make_optimiser_step(Optimiser::kRadam, u, 1e-3, 0.9, 0.999, 1e-8, 0.0, 0.0);
    EXPECT_EQ(step.rectification > 0.0f, u >= 5) << u;
    EXPECT_LT(step.rectification, 1.0f);
  }
  EXPECT_NEAR(
      make_optimiser_step(Optimiser::kRadam, 1'000'000, 1e-3, 0.9, 0.999, 1e-8, 0.0, 0.0).rectification, 1.0,
      1e-6);
}

TEST(OptimiserSteps, ClippingScalesToTheNormAndNeverUp) {
  const LearnerKernels& learner = *learner_kernels(best_isa());
  for (const float size : {0.001f, 1.0f, 100.0f}) {
    std::vector<float> gradient(16, size), weights(16), mean(16), square(16), sum(16);
    double norm = 0.0;
    const ReduceArguments reduce{16, 1, gradient.data(), sum.data(), &norm};
    learner.reduce(reduce, 0, 1);
    const UpdateArguments update{
        16,          sum.data(),
        &norm,       weights.data(),
        mean.data(), square.data(),
        nullptr,     make_optimiser_step(Optimiser::kSgd, 0, 1.0, 0.0, 0.999, 1e-8, 2.0, 0.0)};
    learner.update(update, 0, 1);
    double length = 0.0;
    for (const float w : weights) length += static_cast<double>(w) * static_cast<double>(w);
    EXPECT_NEAR(std::sqrt(length), std::min(2.0, 4.0 * static_cast<double>(size)), 1e-5);
  }
}

TEST(Reduction, VectorWidthAndPartsDoNotChangeABit) {
  constexpr std::size_t kParameters = 3 * kChunkFloats + 32;
  std::mt19937 random(9);
  std::normal_distribution<float> normal(0.0f, 1.0f);
  std::vector<float> gradients(kParameters * 8);
  for (auto& g : gradients) g = normal(random);
  std::vector<std::vector<float>> sums;
  std::vector<std::vector<double>> norms;
  for (const Isa isa : machine_isas()) {
    if (isa == Isa::kBaseline) continue;
    std::vector<float> sum(kParameters);
    std::vector<double> norm(4);
    learner_kernels(isa)->reduce({kParameters, 8, gradients.data(), sum.data(), norm.data()}, 0, 4);
    sums.push_back(sum);
    norms.push_back(norm);
  }
  for (std::size_t i = 1; i < sums.size(); ++i) {
    EXPECT_EQ(sums[i], sums[0]);
    EXPECT_EQ(norms[i], norms[0]);
  }
}

}  // namespace
}  // namespace millrace
