// Statistics over several seeds of one experiment, by rliable's definitions: the interquartile mean, and a
// percentile bootstrap interval of it (Agarwal et al., "Deep Reinforcement Learning at the Edge of the
// Statistical Precipice", 2021).
//
// Thread safety: pure functions.
#pragma once

#include <span>

namespace millrace {

/// Resamples behind an interval: its ends then vary by about a hundredth of its width from generator to
/// generator, and ten seeds take two milliseconds.
inline constexpr int kBootstrapResamples = 10'000;

struct Interval {
  double low = 0.0;
  double high = 0.0;
  bool operator==(const Interval&) const = default;
};

/// The mean of what is left when the lowest and the highest floor(n / 4) of the n values are cut off, which
/// is `scipy.stats.trim_mean(values, 0.25)`. NaN for no values, or when one of them is NaN.
[[nodiscard]] double interquartile_mean(std::span<const double> values);

/// The 95 % percentile bootstrap interval of `interquartile_mean(values)`: kBootstrapResamples resamples with
/// replacement; the 2.5 % and 97.5 % quantiles, linearly interpolated. The generator's seed is fixed, so
/// equal values in equal order give equal bits on every machine. One value is its own interval. NaN as above.
[[nodiscard]] Interval bootstrap_interval95(std::span<const double> values);

}  // namespace millrace
