// How every benchmark measures: warm-up, at least seven repeats, two subjects in alternating order, medians.
//
// One run of a subject takes long enough that the clock and the scheduler do not matter; the median of the repeats is
// quoted, with minimum and maximum beside it, because other work on the machine only ever slows a run down.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "runtime/trainer.hpp"

namespace millrace::bench {

struct Rate {
  double median = 0.0, low = 0.0, high = 0.0;
};

inline Rate summarise(std::vector<double> rates) {
  std::sort(rates.begin(), rates.end());
  return {rates[rates.size() / 2], rates.front(), rates.back()};
}

/// Work done by `subject(n)`: n times some unit; returns units.
using Subject = std::function<double(int)>;

/// How often the subject must run to take at least `seconds`.
inline int calibrate(const Subject& subject, double seconds) {
  for (int n = 1;; n *= 2) {
    const double start = steady_seconds();
    subject(n);
    if (steady_seconds() - start >= seconds || n > (1 << 24)) return n;
  }
}

/// Rates of all subjects, in rounds A B, B A, A B …
inline std::vector<Rate> measure(const std::vector<Subject>& subjects, int repeats, double seconds = 0.05) {
  std::vector<int> counts;
  for (const Subject& subject : subjects) counts.push_back(calibrate(subject, seconds));
  std::vector<std::vector<double>> rates(subjects.size());
  for (int r = 0; r < repeats; ++r) {
    for (std::size_t k = 0; k < subjects.size(); ++k) {
      const std::size_t i = r % 2 == 0 ? k : subjects.size() - 1 - k;
      const double start = steady_seconds();
      const double units = subjects[i](counts[i]);
      rates[i].push_back(units / (steady_seconds() - start));
    }
  }
  std::vector<Rate> summary;
  for (std::vector<double>& one : rates) summary.push_back(summarise(std::move(one)));
  return summary;
}

}  // namespace millrace::bench
