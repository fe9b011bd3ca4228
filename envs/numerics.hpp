// Elementary functions with the same bits on every compiler, instruction set and device: explicit fused
// multiply-add, and own polynomials for sine and cosine.
//
// All are branch-free, so that a loop over lanes vectorises. Thread safety: pure functions.
#pragma once

#include <bit>
#include <cstdint>

#include "envs/platform.hpp"

namespace millrace {
inline namespace MILLRACE_ISA {

/// a * b + c, rounded once.
MILLRACE_FN float fma(float a, float b, float c) {
#if defined(__CUDA_ARCH__) || defined(__FMA__) || defined(__aarch64__)
  return __builtin_fmaf(a, b, c);
#else
  // Without the instruction: the product is exact in double; the sum is rounded to odd, so that rounding it to float
  // is the only rounding that counts (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
  const double product = static_cast<double>(a) * static_cast<double>(b);
  const double addend = static_cast<double>(c);
  const double sum = product + addend;
  const double virtual_addend = sum - product;
  const double error = (product - (sum - virtual_addend)) + (addend - virtual_addend);
  const std::int64_t bits = std::bit_cast<std::int64_t>(sum);
  const std::int64_t toward = (std::bit_cast<std::int64_t>(error) ^ bits) < 0 ? -1 : 1;
  const bool inexact_even = (error < 0.0 || error > 0.0) && (bits & 1) == 0;
  return static_cast<float>(std::bit_cast<double>(bits + (inexact_even ? toward : 0)));
#endif
}

MILLRACE_FN float clamp(float x, float low, float high) {
  const float raised = x < low ? low : x;
  return raised > high ? high : raised;
}

MILLRACE_FN float absolute(float x) { return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & 0x7FFFFFFFu); }

/// sin(x) and cos(x) together.
struct SinCos {
  float sin, cos;
};

/// Sine and cosine of x, |x| <= 2^13; beyond that the error grows with |x|, and the result stays within [-1.01, 1.01]
/// up to 2^22.
/// Cody-Waite reduction to [-pi/4, pi/4] in three parts, then minimax polynomials (fitted for this file; errors in
/// tests/envs/numerics_test.cpp).
MILLRACE_FN SinCos sincos(float x) {
  // Adding 1.5 * 2^23 rounds x * 2/pi to the nearest integer, and leaves it in the low bits.
  const float shifted = fma(x, 0x1.45f306p-1f, 0x1.8p23f);
  const std::uint32_t quadrant = std::bit_cast<std::uint32_t>(shifted);
  const float n = shifted - 0x1.8p23f;
  float r = fma(n, -0x1.921fb4p0f, x);
  r = fma(n, -0x1.4442d0p-24f, r);
  r = fma(n, -0x1.846988p-48f, r);
  const float r2 = r * r;
  float s = fma(r2, 0x1.6cd0a8p-19f, -0x1.a00f7ap-13f);
  s = fma(s, r2, 0x1.111108p-7f);
  s = fma(s, r2, -0x1.555556p-3f);
  s = fma(s * r2, r, r);
  float c = fma(r2, 0x1.99ea02p-16f, -0x1.6c0c2ep-10f);
  c = fma(c, r2, 0x1.55554ap-5f);
  c = fma(c, r2, -0x1.000000p-1f);
  c = fma(c, r2, 1.0f);
  const bool swap = (quadrant & 1u) != 0;
  const float sin_part = swap ? c : s;
  const float cos_part = swap ? s : c;
  const std::uint32_t sin_sign = (quadrant & 2u) << 30;
  const std::uint32_t cos_sign = ((quadrant + 1u) & 2u) << 30;
  return {std::bit_cast<float>(std::bit_cast<std::uint32_t>(sin_part) ^ sin_sign),
          std::bit_cast<float>(std::bit_cast<std::uint32_t>(cos_part) ^ cos_sign)};
}

MILLRACE_FN float sin(float x) { return sincos(x).sin; }
MILLRACE_FN float cos(float x) { return sincos(x).cos; }

}  // namespace MILLRACE_ISA
}  // namespace millrace
