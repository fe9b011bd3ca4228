// Fused multiply-add with the same bits on every compiler, instruction set and device.
//
// Thread safety: pure functions.
#pragma once

#include <bit>
#include <cstdint>

#include "envs/platform.hpp"

namespace millrace {
inline namespace MILLRACE_ISA {

/// a * b + c, rounded once, where the processor has no instruction for it: the product is exact in double; the sum is
/// rounded to odd, so that rounding it to float is the only rounding that counts (Boldo and Melquiond, "Emulation of
/// FMA and correctly rounded sums: proved algorithms using rounding to odd", 2008).
MILLRACE_FN float emulated_fma(float a, float b, float c) {
  const double product = static_cast<double>(a) * static_cast<double>(b);
  const double addend = static_cast<double>(c);
  const double sum = product + addend;
  const double virtual_addend = sum - product;
  const double error = (product - (sum - virtual_addend)) + (addend - virtual_addend);
  const std::int64_t bits = std::bit_cast<std::int64_t>(sum);
  const std::int64_t toward = (std::bit_cast<std::int64_t>(error) ^ bits) < 0 ? -1 : 1;
  const bool inexact_even = (error < 0.0 || error > 0.0) && (bits & 1) == 0;
  return static_cast<float>(std::bit_cast<double>(bits + (inexact_even ? toward : 0)));
}

/// a * b + c, rounded once.
MILLRACE_FN float fma(float a, float b, float c) {
#if defined(__CUDA_ARCH__) || defined(__FMA__) || defined(__aarch64__)
  return __builtin_fmaf(a, b, c);
#else
  return emulated_fma(a, b, c);
#endif
}

}  // namespace MILLRACE_ISA
}  // namespace millrace
