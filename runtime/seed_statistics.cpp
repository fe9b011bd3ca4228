#include "runtime/seed_statistics.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

namespace millrace {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

bool unusable(std::span<const double> values) {
  return values.empty() || std::any_of(values.begin(), values.end(), [](double v) { return std::isnan(v); });
}

/// Reorders `values`. REQUIRES: not empty, no NaN.
double trimmed_mean(std::vector<double>& values) {
  std::sort(values.begin(), values.end());
  const std::size_t cut = values.size() / 4;
  const auto first = values.begin() + static_cast<std::ptrdiff_t>(cut);
  const auto last = values.end() - static_cast<std::ptrdiff_t>(cut);
  return std::accumulate(first, last, 0.0) / static_cast<double>(values.size() - 2 * cut);
}

/// Uniform in [0, bound). The standard's distribution may differ from library to library; this one may not.
std::size_t draw_below(std::mt19937_64& generator, std::uint64_t bound) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  const std::uint64_t excess = (kMost % bound + 1) % bound;  // 2^64 mod bound
  while (true) {
    const std::uint64_t value = generator();
    if (value <= kMost - excess) return static_cast<std::size_t>(value % bound);
  }
}

/// REQUIRES: sorted, not empty; 0 <= fraction <= 1.
double quantile(const std::vector<double>& sorted, double fraction) {
  const double position = fraction * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  const double weight = position - static_cast<double>(below);
  if (weight == 0.0 || sorted[below] == sorted[above]) return sorted[below];  // also equal infinities
  return sorted[below] + weight * (sorted[above] - sorted[below]);
}

}  // namespace

double interquartile_mean(std::span<const double> values) {
  if (unusable(values)) return kNan;
  std::vector<double> copy(values.begin(), values.end());
  return trimmed_mean(copy);
}

Interval bootstrap_interval95(std::span<const double> values) {
  if (unusable(values)) return {kNan, kNan};
  if (values.size() == 1) return {values[0], values[0]};
  std::mt19937_64 generator;  // the standard's own fixed seed
  std::vector<double> sample(values.size());
  std::vector<double> means(kBootstrapResamples);
  for (double& mean : means) {
    for (double& value : sample) value = values[draw_below(generator, values.size())];
    mean = trimmed_mean(sample);
  }
  // Infinities of both signs in one resample have no mean; the interval is then unknown too.
  if (unusable(means)) return {kNan, kNan};
  std::sort(means.begin(), means.end());
  return {quantile(means, 0.025), quantile(means, 0.975)};
}

}  // namespace millrace
