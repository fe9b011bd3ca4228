// The keyed bijection: a permutation for every n, different for every key, roughly uniform, the same on
// vectors.
#include "kernels/shuffle.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

#include "tests/environments/lane_probe.hpp"
#include "tests/environments/registration.hpp"

namespace millrace {
namespace {

std::vector<std::uint32_t> order(std::uint64_t key, std::uint32_t shard, std::uint32_t iteration,
                                 std::uint32_t epoch, std::uint32_t n) {
  const ShuffleKey shuffle = make_shuffle(key, shard, iteration, epoch, n);
  std::vector<std::uint32_t> result(n);
  for (std::uint32_t i = 0; i < n; ++i) result[i] = shuffled(shuffle, i);
  return result;
}

void expect_permutation(const std::vector<std::uint32_t>& values) {
  std::vector<bool> seen(values.size());
  for (const std::uint32_t value : values) {
    ASSERT_LT(value, values.size());
    ASSERT_FALSE(seen[value]) << value << " of " << values.size() << " comes twice";
    seen[value] = true;
  }
}

TEST(Shuffle, IsABijectionForEverySmallNumber) {
  for (std::uint32_t n = 1; n <= 300; ++n) {
    for (std::uint32_t epoch = 0; epoch < 4; ++epoch) expect_permutation(order(n, 0, 7, epoch, n));
  }
}

TEST(Shuffle, IsABijectionForLargeNumbers) {
  for (const std::uint32_t n : {1023u, 1024u, 1025u, 4000u, 32000u, 65537u, 262144u, 1000003u}) {
    expect_permutation(order(1, 3, 2, 1, n));
  }
}

TEST(Shuffle, EveryPartOfTheKeyCounts) {
  // Of 1,000 samples, two random orders have one in the same place, on average.
  const auto base = order(1, 2, 3, 4, 1000);
  const std::vector<std::vector<std::uint32_t>> others = {order(2, 2, 3, 4, 1000), order(1, 3, 3, 4, 1000),
                                                          order(1, 2, 4, 4, 1000), order(1, 2, 3, 5, 1000),
                                                          order(1ull << 40, 2, 3, 4, 1000)};
  for (const auto& other : others) {
    int same = 0;
    for (std::size_t i = 0; i < base.size(); ++i) same += base[i] == other[i];
    EXPECT_LE(same, 10);
  }
}

/// Over many keys: how often each sample comes to each part of the order.
double chi_square_of_places(std::uint32_t n, std::uint32_t parts, int keys) {
  std::vector<int> counts(static_cast<std::size_t>(n) * parts);
  for (int key = 0; key < keys; ++key) {
    const auto values = order(static_cast<std::uint64_t>(key), 0, 0, 0, n);
    for (std::uint32_t i = 0; i < n; ++i)
      ++counts[static_cast<std::size_t>(values[i]) * parts + i * parts / n];
  }
  const double expected = static_cast<double>(keys) / parts;
  double sum = 0.0;
  for (const int count : counts) sum += std::pow(count - expected, 2) / expected;
  return sum;
}

TEST(Shuffle, EverySampleComesToEveryMinibatchAlike) {
  // n (parts - 1) degrees of freedom, roughly; a bijection by a few rounds need not be perfect, but near.
  for (const std::uint32_t n : {64u, 200u, 1000u}) {
    const double freedom = n * 3.0;
    const double chi_square = chi_square_of_places(n, 4, 2000);
    EXPECT_LT(chi_square, freedom + 6.0 * std::sqrt(2.0 * freedom)) << n;
  }
}

TEST(Shuffle, NeighboursAreParted) {
  // Samples next to each other in memory are the same step of neighbouring instances. In a random order of n,
  // two neighbours fall into the same of 8 minibatches with probability 1/8.
  constexpr std::uint32_t n = 4000;
  double together = 0.0;
  int pairs = 0;
  for (std::uint64_t key = 0; key < 20; ++key) {
    const auto values = order(key, 1, 1, 0, n);
    std::vector<std::uint32_t> place(n);
    for (std::uint32_t i = 0; i < n; ++i) place[values[i]] = i;
    for (std::uint32_t s = 0; s + 1 < n; ++s, ++pairs) together += place[s] * 8 / n == place[s + 1] * 8 / n;
  }
  EXPECT_NEAR(together / pairs, 0.125, 0.02);
}

TEST(Shuffle, VectorsShuffleAsScalars) {
  for (const Isa isa : testing_environments::machine_isas()) {
    for (const std::uint32_t n : {1u, 2u, 3u, 15u, 16u, 17u, 255u, 1000u, 4097u}) {
      const std::size_t count = (n + 15) / 16 * 16;
      std::vector<std::uint32_t> values(count);
      lane_probe(isa)->shuffle(11, 5, 6, 7, n, count, values.data());
      const auto expected = order(11, 5, 6, 7, n);
      for (std::uint32_t i = 0; i < n; ++i) ASSERT_EQ(values[i], expected[i]) << to_string(isa) << " n " << n;
    }
  }
}

}  // namespace
}  // namespace millrace
