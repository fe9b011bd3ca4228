// Two machines that a rule is written for once: `Scalar`, one instance in plain float and int, and `Vector`, as many
// instances as fit one vector register, each in its lane. A function template over the machine's `Real`, `Integer`,
// `Word` and `Mask` has the same bits on both, lane by lane.
//
// Use select(mask, a, b) instead of ?: and if, & | ! instead of && || on masks. CUDA has `Scalar` only.
//
// Thread safety: values only.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "envs/numerics.hpp"
#include "envs/platform.hpp"

#if !defined(__CUDACC__) && defined(__SSE2__)
#include <immintrin.h>
#endif

namespace millrace {
inline namespace MILLRACE_ISA {

/// One instance.
struct Scalar {
  using Real = float;
  using Integer = std::int32_t;
  using Word = std::uint32_t;
  using Mask = bool;
  static constexpr int width = 1;
};

MILLRACE_FN float select(bool mask, float a, float b) { return mask ? a : b; }
MILLRACE_FN std::int32_t select(bool mask, std::int32_t a, std::int32_t b) { return mask ? a : b; }
MILLRACE_FN std::uint32_t select(bool mask, std::uint32_t a, std::uint32_t b) { return mask ? a : b; }
MILLRACE_FN bool any(bool mask) { return mask; }
MILLRACE_FN float as_real(std::uint32_t bits) { return std::bit_cast<float>(bits); }
MILLRACE_FN std::uint32_t as_word(float x) { return std::bit_cast<std::uint32_t>(x); }
MILLRACE_FN std::uint32_t as_word(std::int32_t x) { return static_cast<std::uint32_t>(x); }
MILLRACE_FN std::int32_t as_integer(std::uint32_t x) { return static_cast<std::int32_t>(x); }
MILLRACE_FN float to_real(std::int32_t x) { return static_cast<float>(x); }
MILLRACE_FN float square_root(float x) { return __builtin_sqrtf(x); }
/// The upper 32 bits of the 64-bit product.
MILLRACE_FN std::uint32_t multiply_high(std::uint32_t a, std::uint32_t b) {
  return static_cast<std::uint32_t>((static_cast<std::uint64_t>(a) * b) >> 32);
}

MILLRACE_FN std::uint32_t exclusive_or(std::uint32_t a, std::uint32_t b, std::uint32_t c) { return a ^ b ^ c; }

#if !defined(__CUDACC__)

namespace native {
#if defined(__AVX512F__) && defined(__AVX512DQ__)
inline constexpr int kWidth = 16;
#elif defined(__AVX2__)
inline constexpr int kWidth = 8;
#else
inline constexpr int kWidth = 4;
#endif
using F = float __attribute__((vector_size(kWidth * 4)));
using I = std::int32_t __attribute__((vector_size(kWidth * 4)));
using U = std::uint32_t __attribute__((vector_size(kWidth * 4)));
// The same at any address of four bytes, over any type. (g++ copies a vector through memcpy in halves, by way of the
// stack; the whole-vector load that follows then waits for both stores.)
using AnyF = float __attribute__((vector_size(kWidth * 4), aligned(4), may_alias));
using AnyI = std::int32_t __attribute__((vector_size(kWidth * 4), aligned(4), may_alias));
using AnyU = std::uint32_t __attribute__((vector_size(kWidth * 4), aligned(4), may_alias));
template <class T>
struct AnyOf;
template <>
struct AnyOf<float> {
  using type = AnyF;
};
template <>
struct AnyOf<std::int32_t> {
  using type = AnyI;
};
template <>
struct AnyOf<std::uint32_t> {
  using type = AnyU;
};
#if defined(__AVX512F__) && defined(__AVX512DQ__)
using M = __mmask16;
#else
using M = I;
#endif
}  // namespace native

struct MaskLanes {
  native::M m;
  MILLRACE_FN MaskLanes operator&(MaskLanes o) const { return {static_cast<native::M>(m & o.m)}; }
  MILLRACE_FN MaskLanes operator|(MaskLanes o) const { return {static_cast<native::M>(m | o.m)}; }
  MILLRACE_FN MaskLanes operator!() const { return {static_cast<native::M>(~m)}; }
};

/// Lanes of T (float, int32_t or uint32_t), with the operators that T has.
template <class T, class V>
struct LanesOf {
  V v;
  LanesOf() = default;
  MILLRACE_FN LanesOf(V vector) : v(vector) {}
  // x - 0 is x for every x, so this is a plain broadcast (0 + x is not: it turns -0 into 0).
  MILLRACE_FN LanesOf(T scalar) : v(scalar - V{}) {}

  /// From and to kWidth words in a row, whatever their type.
  [[nodiscard]] MILLRACE_FN static LanesOf load(const void* p) {
    return (V)(*static_cast<const typename native::AnyOf<T>::type*>(p));
  }
  MILLRACE_FN void store(void* p) const { *static_cast<typename native::AnyOf<T>::type*>(p) = v; }

  friend MILLRACE_FN LanesOf operator+(LanesOf a, LanesOf b) { return a.v + b.v; }
  friend MILLRACE_FN LanesOf operator-(LanesOf a, LanesOf b) { return a.v - b.v; }
  friend MILLRACE_FN LanesOf operator*(LanesOf a, LanesOf b) { return a.v * b.v; }
  friend MILLRACE_FN LanesOf operator/(LanesOf a, LanesOf b) { return a.v / b.v; }
  friend MILLRACE_FN LanesOf operator-(LanesOf a) { return -a.v; }
  friend MILLRACE_FN LanesOf operator&(LanesOf a, LanesOf b) { return a.v & b.v; }
  friend MILLRACE_FN LanesOf operator|(LanesOf a, LanesOf b) { return a.v | b.v; }
  friend MILLRACE_FN LanesOf operator^(LanesOf a, LanesOf b) { return a.v ^ b.v; }
  friend MILLRACE_FN LanesOf operator<<(LanesOf a, int n) { return a.v << n; }
  friend MILLRACE_FN LanesOf operator>>(LanesOf a, int n) { return a.v >> n; }
  MILLRACE_FN LanesOf& operator+=(LanesOf b) { return *this = *this + b; }
  MILLRACE_FN LanesOf& operator-=(LanesOf b) { return *this = *this - b; }
  MILLRACE_FN LanesOf& operator*=(LanesOf b) { return *this = *this * b; }
  MILLRACE_FN LanesOf& operator^=(LanesOf b) { return *this = *this ^ b; }

#if defined(__AVX512F__) && defined(__AVX512DQ__)
  template <int RealOp, int IntegerOp>
  MILLRACE_FN static MaskLanes compare(LanesOf a, LanesOf b) {
    if constexpr (std::is_same_v<T, float>) {
      return {_mm512_cmp_ps_mask((__m512)a.v, (__m512)b.v, RealOp)};
    } else if constexpr (std::is_same_v<T, std::int32_t>) {
      return {_mm512_cmp_epi32_mask((__m512i)a.v, (__m512i)b.v, IntegerOp)};
    } else {
      return {_mm512_cmp_epu32_mask((__m512i)a.v, (__m512i)b.v, IntegerOp)};
    }
  }
  friend MILLRACE_FN MaskLanes operator<(LanesOf a, LanesOf b) {
    return compare<_CMP_LT_OQ, _MM_CMPINT_LT>(a, b);
  }
  friend MILLRACE_FN MaskLanes operator<=(LanesOf a, LanesOf b) {
    return compare<_CMP_LE_OQ, _MM_CMPINT_LE>(a, b);
  }
  friend MILLRACE_FN MaskLanes operator>(LanesOf a, LanesOf b) {
    return compare<_CMP_GT_OQ, _MM_CMPINT_NLE>(a, b);
  }
  friend MILLRACE_FN MaskLanes operator>=(LanesOf a, LanesOf b) {
    return compare<_CMP_GE_OQ, _MM_CMPINT_NLT>(a, b);
  }
  friend MILLRACE_FN MaskLanes operator==(LanesOf a, LanesOf b) {
    return compare<_CMP_EQ_OQ, _MM_CMPINT_EQ>(a, b);
  }
  friend MILLRACE_FN MaskLanes operator!=(LanesOf a, LanesOf b) {
    return compare<_CMP_NEQ_UQ, _MM_CMPINT_NE>(a, b);
  }
#else
  friend MILLRACE_FN MaskLanes operator<(LanesOf a, LanesOf b) { return {(native::M)(a.v < b.v)}; }
  friend MILLRACE_FN MaskLanes operator<=(LanesOf a, LanesOf b) { return {(native::M)(a.v <= b.v)}; }
  friend MILLRACE_FN MaskLanes operator>(LanesOf a, LanesOf b) { return {(native::M)(a.v > b.v)}; }
  friend MILLRACE_FN MaskLanes operator>=(LanesOf a, LanesOf b) { return {(native::M)(a.v >= b.v)}; }
  friend MILLRACE_FN MaskLanes operator==(LanesOf a, LanesOf b) { return {(native::M)(a.v == b.v)}; }
  friend MILLRACE_FN MaskLanes operator!=(LanesOf a, LanesOf b) { return {(native::M)(a.v != b.v)}; }
#endif
};

using RealLanes = LanesOf<float, native::F>;
using IntegerLanes = LanesOf<std::int32_t, native::I>;
using WordLanes = LanesOf<std::uint32_t, native::U>;

/// As many instances as fit one vector register of the instruction set that this file is compiled for.
struct Vector {
  using Real = RealLanes;
  using Integer = IntegerLanes;
  using Word = WordLanes;
  using Mask = MaskLanes;
  static constexpr int width = native::kWidth;
};

template <class T, class V>
MILLRACE_FN LanesOf<T, V> select(MaskLanes mask, LanesOf<T, V> a, LanesOf<T, V> b) {
#if defined(__AVX512F__) && defined(__AVX512DQ__)
  if constexpr (std::is_same_v<T, float>) {
    return (V)_mm512_mask_blend_ps(mask.m, (__m512)b.v, (__m512)a.v);
  } else {
    return (V)_mm512_mask_blend_epi32(mask.m, (__m512i)b.v, (__m512i)a.v);
  }
#else
  return (V)(mask.m ? (native::U)a.v : (native::U)b.v);
#endif
}
MILLRACE_FN RealLanes select(MaskLanes m, RealLanes a, float b) { return select(m, a, RealLanes(b)); }
MILLRACE_FN RealLanes select(MaskLanes m, float a, RealLanes b) { return select(m, RealLanes(a), b); }
MILLRACE_FN RealLanes select(MaskLanes m, float a, float b) { return select(m, RealLanes(a), RealLanes(b)); }
MILLRACE_FN IntegerLanes select(MaskLanes m, std::int32_t a, std::int32_t b) {
  return select(m, IntegerLanes(a), IntegerLanes(b));
}

MILLRACE_FN bool any(MaskLanes mask) {
#if defined(__AVX512F__) && defined(__AVX512DQ__)
  return mask.m != 0;
#elif defined(__AVX2__)
  return _mm256_movemask_epi8((__m256i)mask.m) != 0;
#elif defined(__SSE2__)
  return _mm_movemask_epi8((__m128i)mask.m) != 0;
#else
  return (mask.m[0] | mask.m[1] | mask.m[2] | mask.m[3]) != 0;
#endif
}
MILLRACE_FN RealLanes as_real(WordLanes x) { return (native::F)x.v; }
MILLRACE_FN WordLanes as_word(RealLanes x) { return (native::U)x.v; }
MILLRACE_FN WordLanes as_word(IntegerLanes x) { return (native::U)x.v; }
MILLRACE_FN IntegerLanes as_integer(WordLanes x) { return (native::I)x.v; }
MILLRACE_FN RealLanes to_real(IntegerLanes x) { return __builtin_convertvector(x.v, native::F); }

MILLRACE_FN RealLanes fma(RealLanes a, RealLanes b, RealLanes c) {
#if defined(__AVX512F__) && defined(__AVX512DQ__)
  return (native::F)_mm512_fmadd_ps((__m512)a.v, (__m512)b.v, (__m512)c.v);
#elif defined(__FMA__)
  return (native::F)_mm256_fmadd_ps((__m256)a.v, (__m256)b.v, (__m256)c.v);
#else
  RealLanes r;
  for (int l = 0; l < native::kWidth; ++l) r.v[l] = fma(a.v[l], b.v[l], c.v[l]);
  return r;
#endif
}

MILLRACE_FN RealLanes square_root(RealLanes x) {
#if defined(__AVX512F__) && defined(__AVX512DQ__)
  return (native::F)_mm512_sqrt_ps((__m512)x.v);
#elif defined(__AVX2__)
  return (native::F)_mm256_sqrt_ps((__m256)x.v);
#elif defined(__SSE2__)
  return (native::F)_mm_sqrt_ps((__m128)x.v);
#else
  RealLanes r;
  for (int l = 0; l < native::kWidth; ++l) r.v[l] = square_root(x.v[l]);
  return r;
#endif
}

MILLRACE_FN WordLanes exclusive_or(WordLanes a, WordLanes b, std::uint32_t c) {
#if defined(__AVX512F__) && defined(__AVX512DQ__)
  return (native::U)_mm512_ternarylogic_epi32((__m512i)a.v, (__m512i)b.v, _mm512_set1_epi32(static_cast<int>(c)), 0x96);
#else
  return a ^ b ^ c;
#endif
}

/// Both halves of the 64-bit products of every lane with one scalar.
struct WideProduct {
  WordLanes high, low;
};
MILLRACE_FN WideProduct multiply_wide(WordLanes a, std::uint32_t b) {
#if defined(__AVX512F__) && defined(__AVX512DQ__)
  const __m512i x = (__m512i)a.v, m = _mm512_set1_epi32(static_cast<int>(b));
  const __m512i even = _mm512_mul_epu32(x, m);
  const __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64(x, 32), m);
  return {(native::U)_mm512_mask_blend_epi32(0xAAAA, _mm512_srli_epi64(even, 32), odd),
          (native::U)_mm512_mask_blend_epi32(0xAAAA, even, _mm512_slli_epi64(odd, 32))};
#elif defined(__AVX2__)
  const __m256i x = (__m256i)a.v, m = _mm256_set1_epi32(static_cast<int>(b));
  const __m256i even = _mm256_mul_epu32(x, m);
  const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(x, 32), m);
  return {(native::U)_mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA),
          (native::U)_mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA)};
#else
  WideProduct r;
  for (int l = 0; l < native::kWidth; ++l) {
    const std::uint64_t product = static_cast<std::uint64_t>(a.v[l]) * b;
    r.high.v[l] = static_cast<std::uint32_t>(product >> 32);
    r.low.v[l] = static_cast<std::uint32_t>(product);
  }
  return r;
#endif
}
MILLRACE_FN WordLanes multiply_high(WordLanes a, std::uint32_t b) { return multiply_wide(a, b).high; }

#endif  // !__CUDACC__

// What follows is written once for both machines.

template <class Real>
MILLRACE_FN Real absolute(Real x) {
  return as_real(as_word(x) & 0x7FFFFFFFu);
}
template <class Real>
MILLRACE_FN Real minimum(Real a, Real b) {
  return select(b < a, b, a);
}
template <class Real>
MILLRACE_FN Real maximum(Real a, Real b) {
  return select(a < b, b, a);
}
/// x limited to [low, high]; NaN stays NaN.
template <class Real>
MILLRACE_FN Real clamp(Real x, float low, float high) {
  const Real raised = select(x < low, Real(low), x);
  return select(raised > high, Real(high), raised);
}
/// The largest integer not above x, for |x| < 2^22.
template <class Real>
MILLRACE_FN Real floor(Real x) {
  const Real nearest = (x + 0x1.8p23f) - 0x1.8p23f;
  return select(x < nearest, nearest - 1.0f, nearest);
}

/// sin(x) and cos(x) together.
template <class Real>
struct SinCos {
  Real sin, cos;
};

/// Sine and cosine of x, |x| <= 2^13; the error grows with |x| beyond that.
/// Cody-Waite reduction to [-pi/4, pi/4] in three parts, then minimax polynomials fitted for this file
/// (tests/envs/numerics_test.cpp states their error).
template <class Real>
MILLRACE_FN SinCos<Real> sincos(Real x) {
  // Adding 1.5 * 2^23 rounds x * 2/pi to the nearest integer, and leaves it in the low bits.
  const Real shifted = fma(x, Real(0x1.45f306p-1f), Real(0x1.8p23f));
  const auto quadrant = as_word(shifted);
  const Real n = shifted - 0x1.8p23f;
  Real r = fma(n, Real(-0x1.921fb4p0f), x);
  r = fma(n, Real(-0x1.4442d0p-24f), r);
  r = fma(n, Real(-0x1.846988p-48f), r);
  const Real r2 = r * r;
  Real s = fma(r2, Real(0x1.6cd0a8p-19f), Real(-0x1.a00f7ap-13f));
  s = fma(s, r2, Real(0x1.111108p-7f));
  s = fma(s, r2, Real(-0x1.555556p-3f));
  s = fma(s * r2, r, r);
  Real c = fma(r2, Real(0x1.99ea02p-16f), Real(-0x1.6c0c2ep-10f));
  c = fma(c, r2, Real(0x1.55554ap-5f));
  c = fma(c, r2, Real(-0.5f));
  c = fma(c, r2, Real(1.0f));
  const auto swap = (quadrant & 1u) != 0u;
  const auto sin_sign = (quadrant & 2u) << 30;
  const auto cos_sign = ((quadrant + 1u) & 2u) << 30;
  return {as_real(as_word(select(swap, c, s)) ^ sin_sign), as_real(as_word(select(swap, s, c)) ^ cos_sign)};
}

}  // namespace MILLRACE_ISA
}  // namespace millrace
