// Philox4x32-10 against its authors' known answers and, where it is installed, their library; draws and
// uniforms; the vector forms on every instruction set.
#include "envs/philox.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "tests/environments/lane_probe.hpp"
#include "tests/environments/registration.hpp"

#if __has_include(<Random123/philox.h>)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wshadow"
#include <Random123/philox.h>
#pragma GCC diagnostic pop
#define MILLRACE_HAS_RANDOM123 1
#endif

namespace millrace {
namespace {

using Four = std::array<std::uint32_t, 4>;

Four philox(const Four& c, std::uint64_t key) {
  const auto block = philox4x32<std::uint32_t>(c[0], c[1], c[2], c[3], key);
  return {block.word0, block.word1, block.word2, block.word3};
}

TEST(Philox, KnownAnswers) {
  // kat_vectors of Random123 1.14, philox4x32-10. A key's first word is the lower half.
  EXPECT_EQ(philox({0, 0, 0, 0}, 0), (Four{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, 0xffffffffffffffff),
            (Four{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0x299f31d0a4093822),
            (Four{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, AgreesWithRandom123) {
#ifdef MILLRACE_HAS_RANDOM123
  std::mt19937_64 random(1);
  for (int i = 0; i < 100'000; ++i) {
    const std::uint64_t a = random(), b = random(), key = random();
    const Four counter = {static_cast<std::uint32_t>(a), static_cast<std::uint32_t>(a >> 32),
                          static_cast<std::uint32_t>(b), static_cast<std::uint32_t>(b >> 32)};
    const r123::Philox4x32::ctr_type c = {{counter[0], counter[1], counter[2], counter[3]}};
    const r123::Philox4x32::key_type k = {
        {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)}};
    const auto expected = r123::Philox4x32()(c, k);
    ASSERT_EQ(philox(counter, key), (Four{expected[0], expected[1], expected[2], expected[3]}));
  }
#else
  GTEST_SKIP() << "Random123 is not installed";
#endif
}

TEST(Philox, VectorLanesAreTheScalarOnes) {
  constexpr std::size_t kCount = 4096;
  std::mt19937_64 random(2);
  std::vector<std::uint32_t> counters(4 * kCount), blocks(4 * kCount);
  for (auto& word : counters) word = static_cast<std::uint32_t>(random());
  // Extremes, where a product's halves are easily confused.
  for (std::size_t i = 0; i < 16; ++i) counters[i] = i % 2 == 0 ? 0xffffffffu : 0u;
  for (const Isa isa : testing_environments::machine_isas()) {
    const std::uint64_t key = random();
    std::fill(blocks.begin(), blocks.end(), 0u);
    lane_probe(isa)->philox(counters.data(), key, kCount, blocks.data());
    for (std::size_t i = 0; i < kCount; ++i) {
      const Four expected = philox(
          {counters[i], counters[kCount + i], counters[2 * kCount + i], counters[3 * kCount + i]}, key);
      for (std::size_t w = 0; w < 4; ++w) ASSERT_EQ(blocks[w * kCount + i], expected[w]) << to_string(isa);
    }
  }
}

TEST(Draws, AreTheWordsOfConsecutiveBlocks) {
  const std::uint64_t key = 0x123456789abcdef0;
  Draws draws(key, 17, 4000000000u, kNoise);
  for (std::uint32_t block = 0; block < 5; ++block) {
    const Four expected = philox({17, 4000000000u, kNoise, block}, key);
    for (const std::uint32_t word : expected) EXPECT_EQ(draws.bits(), word);
  }
}

TEST(Draws, VectorsDrawWhatScalarsDraw) {
  constexpr std::size_t kCount = 64;
  constexpr int kDraws = 11;
  std::vector<std::uint32_t> instances(kCount), steps(kCount), words(kCount * kDraws);
  std::vector<float> uniforms(kCount * kDraws);
  for (std::size_t i = 0; i < kCount; ++i) {
    instances[i] = static_cast<std::uint32_t>(i * 977);
    steps[i] = static_cast<std::uint32_t>(i * i);
  }
  for (const Isa isa : testing_environments::machine_isas()) {
    lane_probe(isa)->draws(99, kReset, instances.data(), steps.data(), kCount, kDraws, -0.3f, 2.7f,
                           words.data(), uniforms.data());
    for (std::size_t i = 0; i < kCount; ++i) {
      Draws bits(99, instances[i], steps[i], kReset), reals(99, instances[i], steps[i], kReset);
      for (std::size_t d = 0; d < kDraws; ++d) {
        ASSERT_EQ(words[d * kCount + i], bits.bits()) << to_string(isa);
        ASSERT_EQ(uniforms[d * kCount + i], reals.uniform(-0.3f, 2.7f)) << to_string(isa);
      }
    }
  }
}

TEST(Draws, UniformsLieInTheUnitIntervalAndFillIt) {
  EXPECT_EQ(unit_real(0u), 0.0f);
  EXPECT_EQ(unit_real(0xffu), 0.0f);
  EXPECT_EQ(unit_real(0x100u), 0x1p-24f);
  EXPECT_EQ(unit_real(0xffffffffu), 1.0f - 0x1p-24f);
  constexpr int kSamples = 1'000'000, kBins = 100;
  std::vector<int> bins(kBins);
  double sum = 0.0, previous = 0.5, product = 0.0;
  for (std::uint32_t i = 0; i < kSamples / 4; ++i) {
    Draws draws(3, i, 0, kReset);
    for (int d = 0; d < 4; ++d) {
      const float u = draws.uniform();
      ASSERT_GE(u, 0.0f);
      ASSERT_LT(u, 1.0f);
      ASSERT_EQ(u * 0x1p24f, std::floor(u * 0x1p24f)) << "a multiple of 2^-24";
      ++bins[static_cast<std::size_t>(u * kBins)];
      sum += static_cast<double>(u);
      product += (static_cast<double>(u) - 0.5) * (previous - 0.5);
      previous = static_cast<double>(u);
    }
  }
  double chi_square = 0.0;
  for (const int bin : bins) chi_square += std::pow(bin - kSamples / kBins, 2) / (kSamples / kBins);
  EXPECT_LT(chi_square, 148.2) << "99 degrees of freedom, p = 0.001";
  EXPECT_NEAR(sum / kSamples, 0.5, 4.0 / std::sqrt(12.0 * kSamples));
  EXPECT_NEAR(12.0 * product / kSamples, 0.0, 4.0 / std::sqrt(kSamples));
}

TEST(Draws, BelowIsFairAndInRange) {
  for (const std::uint32_t n : {1u, 2u, 3u, 7u, 65u, 1u << 24}) {
    EXPECT_EQ(multiply_high(0u, n), 0u);
    EXPECT_EQ(multiply_high(0xffffffffu, n), n - 1);
  }
  std::vector<int> counts(7);
  for (std::uint32_t i = 0; i < 70'000; ++i) {
    Draws draws(5, i, 1, kAction);
    ++counts[draws.below(7)];
  }
  double chi_square = 0.0;
  for (const int count : counts) chi_square += std::pow(count - 10'000, 2) / 10'000;
  EXPECT_LT(chi_square, 22.5) << "6 degrees of freedom, p = 0.001";

  std::vector<std::uint32_t> words(256), results(256);
  std::mt19937 random(4);
  for (auto& word : words) word = static_cast<std::uint32_t>(random());
  for (const Isa isa : testing_environments::machine_isas()) {
    lane_probe(isa)->below(words.data(), 65, words.size(), results.data());
    for (std::size_t i = 0; i < words.size(); ++i) ASSERT_EQ(results[i], multiply_high(words[i], 65u));
  }
}

}  // namespace
}  // namespace millrace
