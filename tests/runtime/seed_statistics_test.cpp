// Expected numbers: scipy 1.17 (`trim_mean(x, 0.25)`), and a bootstrap in Python over the same generator
// (an independent MT19937-64, values drawn by rejection), `trim_mean` and `numpy.percentile`.
#include "runtime/seed_statistics.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace millrace {
namespace {

struct KnownAnswer {
  std::vector<double> values;
  double iqm;
  Interval interval;
};

std::vector<double> one_to_twenty() {
  std::vector<double> values(20);
  std::iota(values.begin(), values.end(), 1.0);
  return values;
}

const std::vector<KnownAnswer>& known_answers() {
  static const std::vector<KnownAnswer> all = {
      {{500.0, 500.0, 498.25, 476.5, 491.75, 500.0, 487.0, 499.5, 480.25, 495.0},
       495.25,
       {486.875, 499.5416666666667}},
      {{-104.5, -102.0, -103.25}, -103.25, {-104.5, -102.0}},
      {{3.0, -1.0, 4.0, 1.0, -5.0, 9.0, 2.0}, 1.8, {-1.4, 5.2}},
      {{1.0, 2.0}, 1.5, {1.0, 2.0}},
      {{1.0, 2.0, 3.0, 100.0}, 2.5, {1.0, 100.0}},
      {one_to_twenty(), 10.5, {7.1, 13.9}},
  };
  return all;
}

TEST(SeedStatistics, InterquartileMeanEqualsScipy) {
  for (const KnownAnswer& known : known_answers()) {
    EXPECT_NEAR(interquartile_mean(known.values), known.iqm, 1e-12) << known.values.size() << " values";
  }
}

TEST(SeedStatistics, IntervalEqualsTheIndependentBootstrap) {
  for (const KnownAnswer& known : known_answers()) {
    const Interval interval = bootstrap_interval95(known.values);
    EXPECT_NEAR(interval.low, known.interval.low, 1e-9) << known.values.size() << " values";
    EXPECT_NEAR(interval.high, known.interval.high, 1e-9) << known.values.size() << " values";
  }
}

TEST(SeedStatistics, IntervalIsRepeatable) {
  const std::vector<double>& values = known_answers()[0].values;
  EXPECT_EQ(bootstrap_interval95(values), bootstrap_interval95(values));
}

TEST(SeedStatistics, OneValueIsItsOwnInterval) {
  const std::vector<double> one = {487.5};
  EXPECT_EQ(interquartile_mean(one), 487.5);
  EXPECT_EQ(bootstrap_interval95(one), (Interval{487.5, 487.5}));
}

TEST(SeedStatistics, EqualValuesHaveNoWidth) {
  const std::vector<double> equal(10, 500.0);
  EXPECT_EQ(bootstrap_interval95(equal), (Interval{500.0, 500.0}));
}

TEST(SeedStatistics, OutliersWithinTheQuarterDoNotCount) {
  std::vector<double> values = one_to_twenty();
  const double before = interquartile_mean(values);
  for (std::size_t i = 0; i < 5; ++i) values[i] = -1e300;
  for (std::size_t i = 15; i < 20; ++i) values[i] = std::numeric_limits<double>::infinity();
  EXPECT_EQ(interquartile_mean(values), before);
}

TEST(SeedStatistics, MeanDoesNotDependOnOrder) {
  std::vector<double> values = known_answers()[0].values;
  const double before = interquartile_mean(values);
  std::reverse(values.begin(), values.end());
  EXPECT_EQ(interquartile_mean(values), before);
}

TEST(SeedStatistics, NothingOrNotANumberGivesNotANumber) {
  const std::vector<double> none;
  const std::vector<double> bad = {1.0, std::nan(""), 2.0};
  for (const std::vector<double>* values : {&none, &bad}) {
    EXPECT_TRUE(std::isnan(interquartile_mean(*values)));
    EXPECT_TRUE(std::isnan(bootstrap_interval95(*values).low));
    EXPECT_TRUE(std::isnan(bootstrap_interval95(*values).high));
  }
}

}  // namespace
}  // namespace millrace
