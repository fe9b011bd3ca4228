// What the machine can do at most, measured in the same process as the benchmark: the smallest loop that steps CartPole,
// and a loop of multiply-adds in registers. One table for each instruction set; nothing inline.
#pragma once

#include <cstdint>

#include "kernels/environment_kernels.hpp"

namespace millrace::bench {

struct LimitState {
  float* state;              ///< [4][stride]
  std::uint32_t* step_count;
  std::int32_t* length;
  float* observation;        ///< [4][stride]
  int stride;
};

struct LimitKernels {
  /// Steps of instances [first, first + 16): keyed Philox actions and resets, observations written, no statistics.
  void (*cartpole)(const LimitState&, std::uint64_t key, int first, int steps);
  /// `rounds` rounds of independent multiply-adds; returns their number of floating-point operations.
  double (*multiply_adds)(int rounds, float* sink);
};

/// Null if this build has none.
[[nodiscard]] const LimitKernels* limit_kernels(Isa isa);

}  // namespace millrace::bench
