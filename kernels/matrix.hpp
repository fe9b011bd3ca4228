// The one matrix product behind every layer, on one thread and one tile: forward, gradients of inputs, gradients of
// weights. Compiled for each instruction set.
//
//   Y[m][n] = start + sum over k of A(m, k) * X[k][n],  A(m, k) = a[m * row_step + k * k_step]
//
// Lanes run along n, so that with samples in lanes nothing is ever summed across lanes. Each Y[m][n] is one chain of
// multiply-adds in the order of k, whatever the blocking: the blocking never changes a bit.
//
// Block: kRows x kColumns vectors of accumulators stay in registers; per k that is kColumns loads and kRows broadcasts
// for kRows * kColumns multiply-adds, so the multiply-add units bind (AVX-512: 16 per 10 loads).
//
// Thread safety: pure functions on disjoint outputs.
#pragma once

#include <cstddef>

#include "envs/lanes.hpp"
#include "kernels/instances.hpp"

namespace millrace {
inline namespace MILLRACE_ISA {

/// Samples that the network is evaluated on together; rows of activations have this many floats.
inline constexpr int kTile = 64;

/// a * b + c, fused where the processor can. (Without the instruction the network's bits differ; the environments'
/// never do, they use fma().)
MILLRACE_FN RealLanes multiply_add(RealLanes a, RealLanes b, RealLanes c) {
#if defined(__FMA__) || defined(__aarch64__)
  return fma(a, b, c);
#else
  return a * b + c;
#endif
}

/// What a row of Y starts from.
enum class Start {
  kZero,
  kBias,  ///< bias[m], for all n
  kSum,   ///< what Y holds
};

struct MatrixProduct {
  const float* a;
  std::ptrdiff_t row_step, k_step;
  const float* x;
  std::ptrdiff_t x_stride;
  float* y;
  std::ptrdiff_t y_stride;
  int m, k, n;  ///< X's rows are readable, and Y's writable if !exact_columns, up to a multiple of 16 columns
  const float* bias;
};

namespace detail {

#if defined(__AVX512F__)
inline constexpr int kRows = 8;
#else
inline constexpr int kRows = 4;
#endif
inline constexpr int kColumns = 2;

template <int R, int C, Start S>
MILLRACE_FN void product_block(const MatrixProduct& p, int m, int n, int valid_columns) {
  RealLanes sum[R][C];
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < C; ++c) {
      if constexpr (S == Start::kBias) {
        sum[r][c] = RealLanes(p.bias[m + r]);
      } else if constexpr (S == Start::kSum) {
        const float* y = p.y + (m + r) * p.y_stride + n + c * native::kWidth;
        if (valid_columns >= (c + 1) * native::kWidth) {
          sum[r][c] = RealLanes::load(y);
        } else {
          alignas(64) float part[native::kWidth] = {};
          for (int l = 0; l < valid_columns - c * native::kWidth; ++l) part[l] = y[l];
          sum[r][c] = RealLanes::load(part);
        }
      } else {
        sum[r][c] = RealLanes(0.0f);
      }
    }
  }
  const float* a = p.a + m * p.row_step;
  const float* x = p.x + n;
  const std::ptrdiff_t row_step = p.row_step;
  for (int k = 0; k < p.k; ++k) {
    RealLanes column[C];
    for (int c = 0; c < C; ++c) column[c] = RealLanes::load(x + c * native::kWidth);
    for (int r = 0; r < R; ++r) {
      const RealLanes scale(a[r * row_step]);
      for (int c = 0; c < C; ++c) sum[r][c] = multiply_add(scale, column[c], sum[r][c]);
    }
    a += p.k_step;
    x += p.x_stride;
  }
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < C; ++c) {
      float* y = p.y + (m + r) * p.y_stride + n + c * native::kWidth;
      if (valid_columns >= (c + 1) * native::kWidth) {
        sum[r][c].store(y);
      } else {
        alignas(64) float part[native::kWidth];
        sum[r][c].store(part);
        for (int l = 0; l < valid_columns - c * native::kWidth; ++l) y[l] = part[l];
      }
    }
  }
}

template <int C, Start S>
void product_columns(const MatrixProduct& p, int n, int valid_columns) {
  int m = 0;
  for (; m + kRows <= p.m; m += kRows) product_block<kRows, C, S>(p, m, n, valid_columns);
  if constexpr (kRows > 4) {
    for (; m + 4 <= p.m; m += 4) product_block<4, C, S>(p, m, n, valid_columns);
  }
  for (; m + 2 <= p.m; m += 2) product_block<2, C, S>(p, m, n, valid_columns);
  for (; m < p.m; ++m) product_block<1, C, S>(p, m, n, valid_columns);
}

}  // namespace detail

template <Start S>
void multiply(const MatrixProduct& p) {
  constexpr int kBlock = detail::kColumns * native::kWidth;
  int n = 0;
  for (; n + native::kWidth < p.n; n += kBlock) detail::product_columns<detail::kColumns, S>(p, n, p.n - n);
  for (; n < p.n; n += native::kWidth) detail::product_columns<1, S>(p, n, p.n - n);
}

/// Transposes x[rows][kTile] into y[kTile][y_stride], one vector block at a time. rows is rounded up to a multiple of
/// the vector width: x and y have room for it.
template <int D>
MILLRACE_FN void exchange(native::F (&r)[native::kWidth]) {
  for (int i = 0; i < native::kWidth; ++i) {
    if ((i & D) == 0) {
      const native::F a = r[i], b = r[i + D];
      native::I low, high;
      for (int l = 0; l < native::kWidth; ++l) {
        low[l] = (l & D) == 0 ? l : native::kWidth + l - D;
        high[l] = (l & D) == 0 ? l + D : native::kWidth + l;
      }
#if defined(__clang__)
      native::F x, y;
      for (int l = 0; l < native::kWidth; ++l) {
        x[l] = (l & D) == 0 ? a[l] : b[l - D];
        y[l] = (l & D) == 0 ? a[l + D] : b[l];
      }
      r[i] = x;
      r[i + D] = y;
      (void)low;
      (void)high;
#else
      r[i] = __builtin_shuffle(a, b, low);
      r[i + D] = __builtin_shuffle(a, b, high);
#endif
    }
  }
}

inline void transpose(const float* x, int rows, float* y, std::ptrdiff_t y_stride) {
  constexpr int w = native::kWidth;
  for (int r0 = 0; r0 < rows; r0 += w) {
    for (int s0 = 0; s0 < kTile; s0 += w) {
      native::F block[w];
      for (int i = 0; i < w; ++i) block[i] = RealLanes::load(x + (r0 + i) * kTile + s0).v;
      if constexpr (w >= 16) exchange<8>(block);
      if constexpr (w >= 8) exchange<4>(block);
      exchange<2>(block);
      exchange<1>(block);
      for (int i = 0; i < w; ++i) RealLanes(block[i]).store(y + (s0 + i) * y_stride + r0);
    }
  }
}

}  // namespace MILLRACE_ISA
}  // namespace millrace
