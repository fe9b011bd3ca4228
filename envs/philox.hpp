// Philox4x32-10, the counter-based generator behind all randomness (Salmon et al., "Parallel random numbers: as easy
// as 1, 2, 3", SC 2011), and `Draws`, the stream that an environment draws from.
//
// key = experiment seed; counter = (global instance index, that instance's step count, purpose, draw). There is no
// stored state, so a stream depends on neither grid, threads, devices, ranks nor chunk length.
//
// Thread safety: values only.
#pragma once

#include <cstdint>

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

/// Four 32-bit words: a counter or a block of output.
struct PhiloxBlock {
  std::uint32_t word[4];
};

/// The 128-bit block that `counter` maps to under the 64-bit `key`, after ten rounds.
MILLRACE_FN PhiloxBlock philox4x32(PhiloxBlock counter, std::uint64_t key) {
  std::uint32_t k0 = static_cast<std::uint32_t>(key);
  std::uint32_t k1 = static_cast<std::uint32_t>(key >> 32);
  std::uint32_t c0 = counter.word[0], c1 = counter.word[1], c2 = counter.word[2], c3 = counter.word[3];
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC unroll 10
#else
#pragma unroll
#endif
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = static_cast<std::uint64_t>(0xD2511F53u) * c0;
    const std::uint64_t p1 = static_cast<std::uint64_t>(0xCD9E8D57u) * c2;
    c0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<std::uint32_t>(p1);
    c2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<std::uint32_t>(p0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

/// The upper 24 bits as a float in [0, 1), multiples of 2^-24.
MILLRACE_FN float unit_float(std::uint32_t word) {
  // Through a signed integer: that conversion is one instruction on every vector unit.
  return static_cast<float>(static_cast<std::int32_t>(word >> 8)) * 0x1p-24f;
}

/// An integer in [0, n), 1 <= n <= 2^24; the bias is below n / 2^32.
MILLRACE_FN std::uint32_t below(std::uint32_t word, std::uint32_t n) {
  return static_cast<std::uint32_t>((static_cast<std::uint64_t>(word) * n) >> 32);
}

/// One (instance, step, purpose)'s stream of random words, taken in order. Environments receive it by reference.
class Draws {
 public:
  MILLRACE_FN Draws(std::uint64_t key, std::uint32_t instance, std::uint32_t step, std::uint32_t purpose)
      : key_(key), counter_{{instance, step, purpose, 0}} {}

  /// 32 random bits.
  MILLRACE_FN std::uint32_t bits() {
    const std::uint32_t lane = used_ & 3u;
    if (lane == 0) {
      counter_.word[3] = used_ >> 2;
      block_ = philox4x32(counter_, key_);
    }
    ++used_;
    return block_.word[lane];
  }
  /// Uniform in [0, 1), multiples of 2^-24.
  MILLRACE_FN float uniform() { return unit_float(bits()); }
  /// Uniform in [low, high): low + (high - low) * u, rounded once for the product and once for the sum.
  MILLRACE_FN float uniform(float low, float high) { return low + (high - low) * uniform(); }
  /// An integer in [0, n), 1 <= n <= 2^24.
  MILLRACE_FN std::uint32_t below(std::uint32_t n) { return MILLRACE_ISA::below(bits(), n); }

 private:
  std::uint64_t key_;
  PhiloxBlock counter_;
  PhiloxBlock block_{};
  std::uint32_t used_ = 0;
};

}  // namespace MILLRACE_ISA
}  // namespace millrace
