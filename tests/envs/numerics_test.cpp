// The arithmetic that trajectories rest on: sine and cosine against libm's double, the emulated fused
// multiply-add against the correctly rounded one, wrapped angles, and the vector machine's lanes against the
// scalar machine.
#include "envs/numerics.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "envs/angles.hpp"
#include "envs/lanes.hpp"

namespace millrace {
namespace {

constexpr double kTwoPi = 6.28318530717958647692;

/// SplitMix64: test inputs need no more.
class Words {
 public:
  explicit Words(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  std::uint64_t state_;
};

/// The distance of `got` from `exact` in units of the last place of a float of exact's size, at least
/// 2^-24's.
double error_in_ulps(float got, double exact) {
  const double magnitude = std::max(std::fabs(exact), 0x1p-24);
  const double ulp = std::exp2(std::floor(std::log2(magnitude)) - 23.0);
  return std::fabs(static_cast<double>(got) - exact) / ulp;
}

struct Worst {
  double relative_ulps = 0.0, absolute = 0.0;
};

void compare(float x, Worst& worst) {
  const auto [s, c] = sincos(x);
  const double exact[] = {std::sin(static_cast<double>(x)), std::cos(static_cast<double>(x))};
  const float got[] = {s, c};
  for (int i = 0; i < 2; ++i) {
    worst.relative_ulps = std::max(worst.relative_ulps, error_in_ulps(got[i], exact[i]));
    worst.absolute = std::max(worst.absolute, std::fabs(static_cast<double>(got[i]) - exact[i]));
  }
}

/// Every float from low to high, `stride` apart in the order of their bits; both signs.
Worst sweep(float low, float high, std::uint32_t stride) {
  Worst worst;
  const auto last = std::bit_cast<std::uint32_t>(high);
  for (std::uint32_t bits = std::bit_cast<std::uint32_t>(low); bits <= last; bits += stride) {
    compare(std::bit_cast<float>(bits), worst);
    compare(-std::bit_cast<float>(bits), worst);
  }
  return worst;
}

TEST(SinCos, IsWithinOneAndAHalfUlpsOnTheFirstTurns) {
  const Worst worst = sweep(0.0f, 8.0f, 1009);
  RecordProperty("ulps", std::to_string(worst.relative_ulps));
  EXPECT_LE(worst.relative_ulps, 1.45);
  EXPECT_LE(worst.absolute, 1.25 * 0x1p-24);
}

TEST(SinCos, KeepsItsPrecisionUpToItsRange) {
  const Worst worst = sweep(8.0f, 8192.0f, 101);
  RecordProperty("ulps", std::to_string(worst.relative_ulps));
  EXPECT_LE(worst.relative_ulps, 1.5);
  EXPECT_LE(worst.absolute, 1.25 * 0x1p-24);
}

TEST(SinCos, StaysBoundedFarOutsideIt) {
  Words words(7);
  for (int i = 0; i < 100000; ++i) {
    const auto [s, c] = sincos(static_cast<float>((words.unit() - 0.5) * 2e6));
    ASSERT_LE(std::fabs(s), 1.01f);
    ASSERT_LE(std::fabs(c), 1.01f);
  }
}

TEST(SinCos, MeetsTheSpecialPoints) {
  EXPECT_EQ(sincos(0.0f).sin, 0.0f);
  EXPECT_EQ(sincos(0.0f).cos, 1.0f);
  // The sine of the float nearest pi is the distance of that float from pi.
  EXPECT_FLOAT_EQ(sincos(0x1.921fb6p1f).sin, -8.742278e-8f);
  EXPECT_FLOAT_EQ(sincos(0x1.921fb6p0f).cos, -4.371139e-8f);
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    EXPECT_TRUE(std::isnan(sincos(bad).sin));
    EXPECT_TRUE(std::isnan(sincos(bad).cos));
  }
}

/// Any finite float, in one case of four with an exponent near 0, so that sums cancel and round.
float random_float(Words& words) {
  const std::uint64_t w = words.next();
  std::uint32_t bits = static_cast<std::uint32_t>(w);
  if ((w >> 62) != 0) bits = (bits & 0x807FFFFFu) | static_cast<std::uint32_t>(((w >> 32) % 50 + 102) << 23);
  return (bits & 0x7F800000u) == 0x7F800000u ? 1.5f : std::bit_cast<float>(bits);
}

void expect_fma(float a, float b, float c) {
  const float want = std::fma(a, b, c), emulated = emulated_fma(a, b, c), used = fma(a, b, c);
  if (std::isnan(want)) {
    EXPECT_TRUE(std::isnan(emulated) && std::isnan(used)) << a << " * " << b << " + " << c;
    return;
  }
  EXPECT_EQ(std::bit_cast<std::uint32_t>(emulated), std::bit_cast<std::uint32_t>(want))
      << a << " * " << b << " + " << c;
  EXPECT_EQ(std::bit_cast<std::uint32_t>(used), std::bit_cast<std::uint32_t>(want))
      << a << " * " << b << " + " << c;
}

TEST(Fma, EmulatedHasTheRoundedOnceBitsOnRandomInputs) {
  Words words(1);
  for (int i = 0; i < 1000000 && !HasFailure(); ++i) {
    const float a = random_float(words), b = random_float(words), c = random_float(words);
    expect_fma(a, b, c);
    // Nearly cancelling, and on the midpoints between floats, where rounding twice goes wrong.
    const float product = a * b;
    if (!std::isfinite(product)) continue;
    expect_fma(a, b, -product);
    const float tiny = std::ldexp(c, -static_cast<int>(words.next() % 60));
    expect_fma(1.0f + 0x1p-12f, 1.0f + 0x1p-12f, tiny);
    expect_fma(product, 1.0f + 0x1p-23f, tiny);
  }
}

TEST(Fma, EmulatedHasTheRoundedOnceBitsOnEdges) {
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> edges = {0.0f,
                              1.0f,
                              1.0f + 0x1p-23f,
                              1.0f - 0x1p-24f,
                              1.5f,
                              2.0f,
                              3.0f,
                              0x1p-126f,
                              0x1p-149f,
                              0x1.fffffep-127f,
                              0x1.fffffep127f,
                              0x1p127f,
                              0x1p-75f,
                              0x1p-74f,
                              0x1.000002p-75f,
                              0x1p24f,
                              0x1.8p23f,
                              0x1p12f + 0x1p-11f,
                              infinity};
  const std::size_t count = edges.size();
  for (std::size_t i = 0; i < count; ++i) edges.push_back(-edges[i]);
  edges.push_back(std::numeric_limits<float>::quiet_NaN());
  for (const float a : edges) {
    for (const float b : edges) {
      for (const float c : edges) expect_fma(a, b, c);
    }
  }
}

TEST(WrapAngle, LeavesAnglesOfTheFirstTurnAlone) {
  Words words(3);
  for (int i = 0; i < 100000; ++i) {
    const float x = static_cast<float>((words.unit() - 0.5) * 6.2831850);
    ASSERT_EQ(wrap_angle(x), x);
  }
  EXPECT_EQ(wrap_angle(0x1.921fb4p1f), 0x1.921fb4p1f);  // the largest float below pi
  EXPECT_EQ(wrap_angle(-0x1.921fb4p1f), -0x1.921fb4p1f);
}

TEST(WrapAngle, TakesAwayWholeTurns) {
  Words words(4);
  for (int i = 0; i < 100000; ++i) {
    const float x = static_cast<float>((words.unit() - 0.5) * 2e4);
    const double exact = std::remainder(static_cast<double>(x), kTwoPi);
    const float got = wrap_angle(x);
    // Within rounding of x / 2pi of half a turn, either side is right.
    const double difference = std::fabs(static_cast<double>(got) - exact);
    ASSERT_LE(std::min(difference, std::fabs(difference - kTwoPi)), 0x1p-22) << x;
    ASSERT_LE(std::fabs(got), 3.1415927f + 1e-3f) << x;
  }
}

TEST(Clamp, LimitsAndKeepsNaN) {
  EXPECT_EQ(clamp(2.0f, -1.0f, 1.0f), 1.0f);
  EXPECT_EQ(clamp(-2.0f, -1.0f, 1.0f), -1.0f);
  EXPECT_EQ(clamp(0.25f, -1.0f, 1.0f), 0.25f);
  EXPECT_TRUE(std::isnan(clamp(std::numeric_limits<float>::quiet_NaN(), -1.0f, 1.0f)));
}

TEST(Floor, IsTheLargestIntegerNotAbove) {
  Words words(5);
  for (int i = 0; i < 100000; ++i) {
    const float x = static_cast<float>((words.unit() - 0.5) * 4e6);
    ASSERT_EQ(floor(x), std::floor(x)) << x;
  }
  for (const float x : {0.0f, 0.5f, -0.5f, 1.0f, -1.0f, 2.5f, -2.5f, 1e-30f, -1e-30f}) {
    EXPECT_EQ(floor(x), std::floor(x)) << x;
  }
}

/// Compares one function of one number on both machines, over `n` inputs.
template <class Function>
void expect_same_lanes(Function function, double range) {
  constexpr int width = Vector::width;
  Words words(6);
  for (int i = 0; i < 20000; ++i) {
    float x[width], y[width];
    for (float& value : x) value = static_cast<float>((words.unit() - 0.5) * 2.0 * range);
    function(RealLanes::load(x)).store(y);
    for (int l = 0; l < width; ++l) ASSERT_EQ(as_word(y[l]), as_word(function(x[l]))) << x[l];
  }
}

TEST(Lanes, HaveTheScalarBits) {
  expect_same_lanes([](auto x) { return sincos(x).sin; }, 1e4);
  expect_same_lanes([](auto x) { return sincos(x).cos; }, 10.0);
  expect_same_lanes([](auto x) { return wrap_angle(x); }, 100.0);
  expect_same_lanes([](auto x) { return clamp(x, -1.0f, 0.5f); }, 2.0);
  expect_same_lanes([](auto x) { return floor(x); }, 1e6);
  expect_same_lanes([](auto x) { return square_root(absolute(x)); }, 1e6);
  expect_same_lanes([](auto x) { return fma(x, x, decltype(x)(-0.3f)); }, 2.0);
  expect_same_lanes([](auto x) { return minimum(x, decltype(x)(0.1f)) / maximum(x, decltype(x)(0.2f)); },
                    1.0);
}

}  // namespace
}  // namespace millrace
