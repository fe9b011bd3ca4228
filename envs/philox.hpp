// Philox4x32-10, the counter-based generator behind all randomness (Salmon et al., "Parallel random numbers: as easy
// as 1, 2, 3", SC 2011), and `Draws`, the stream that an environment draws from.
//
// key = experiment seed; counter = (global instance index, that instance's step count, purpose, draw). There is no
// stored state, so a stream depends on neither grid, threads, devices, ranks nor chunk length.
//
// Thread safety: values only.
#pragma once

#include <cstdint>

#include "envs/lanes.hpp"
#include "envs/platform.hpp"

namespace millrace {

/// What a random number is for: the third word of the counter. Training, evaluation and tracing are told apart by
/// `kEvaluation`, which is added to a purpose.
enum Purpose : std::uint32_t {
  kReset = 0,
  kNoise = 1,
  kAction = 2,
  kSampling = 3,
  kInitialisation = 4,
  kStagger = 5,
  kEvaluation = 256,
};

inline namespace MILLRACE_ISA {

/// Four 32-bit words, in one instance or in each lane: a counter or a block of output.
template <class Word>
struct PhiloxBlock {
  Word word0, word1, word2, word3;
};

namespace detail {
struct ScalarWideProduct {
  std::uint32_t high, low;
};
MILLRACE_FN ScalarWideProduct multiply_both(std::uint32_t a, std::uint32_t b) {
  const std::uint64_t product = static_cast<std::uint64_t>(a) * b;
  return {static_cast<std::uint32_t>(product >> 32), static_cast<std::uint32_t>(product)};
}
#if !defined(__CUDACC__)
MILLRACE_FN WideProduct multiply_both(WordLanes a, std::uint32_t b) { return multiply_wide(a, b); }
#endif
}  // namespace detail

/// The 128-bit block that the counter maps to under the 64-bit `key`, after ten rounds.
template <class Word>
MILLRACE_FN PhiloxBlock<Word> philox4x32(Word c0, Word c1, Word c2, Word c3, std::uint64_t key) {
  std::uint32_t k0 = static_cast<std::uint32_t>(key);
  std::uint32_t k1 = static_cast<std::uint32_t>(key >> 32);
#if defined(__clang__) || defined(__CUDACC__)
#pragma unroll
#else
#pragma GCC unroll 10
#endif
  for (int round = 0; round < 10; ++round) {
    const auto p0 = detail::multiply_both(c0, 0xD2511F53u);
    const auto p1 = detail::multiply_both(c2, 0xCD9E8D57u);
    c0 = exclusive_or(p1.high, c1, k0);
    c1 = p1.low;
    c2 = exclusive_or(p0.high, c3, k1);
    c3 = p0.low;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {c0, c1, c2, c3};
}

/// The upper 24 bits as a float in [0, 1), multiples of 2^-24.
template <class Word>
MILLRACE_FN auto unit_real(Word word) {
  // Through a signed integer: that conversion is one instruction on every vector unit.
  return to_real(as_integer(word >> 8)) * 0x1p-24f;
}

/// One (instance, step, purpose)'s stream of random words on machine M, taken in order. Environments receive it by
/// reference.
template <class M>
class DrawsOf {
 public:
  using Real = typename M::Real;
  using Word = typename M::Word;

  MILLRACE_FN DrawsOf(std::uint64_t key, Word instance, Word step, std::uint32_t purpose)
      : key_(key), instance_(instance), step_(step), purpose_(purpose) {}

  /// 32 random bits.
  MILLRACE_FN Word bits() {
    // Selects instead of an indexed array: the compiler folds them where the number of earlier draws is known, and
    // keeps the block in registers.
    const std::uint32_t next = used_ & 3u;
    if (next == 0) block_ = philox4x32<Word>(instance_, step_, Word(purpose_), Word(used_ >> 2), key_);
    ++used_;
    return next == 0 ? block_.word0 : next == 1 ? block_.word1 : next == 2 ? block_.word2 : block_.word3;
  }
  /// Uniform in [0, 1), multiples of 2^-24.
  MILLRACE_FN Real uniform() { return unit_real(bits()); }
  /// Uniform in [low, high): low + (high - low) * u, rounded once for the product and once for the sum.
  MILLRACE_FN Real uniform(float low, float high) { return uniform() * (high - low) + low; }
  /// An integer in [0, n), 1 <= n <= 2^24; the bias is below n / 2^32.
  MILLRACE_FN Word below(std::uint32_t n) { return multiply_high(bits(), n); }

 private:
  std::uint64_t key_;
  Word instance_, step_;
  std::uint32_t purpose_;
  std::uint32_t used_ = 0;
  PhiloxBlock<Word> block_{};
};

using Draws = DrawsOf<Scalar>;

}  // namespace MILLRACE_ISA
}  // namespace millrace
