// A keyed bijection of [0, n): the order in which a shard's samples are drawn, without storing a permutation.
//
// Each round is invertible on b-bit numbers (exclusive or with a key, product with an odd number, shift-exclusive-or);
// results of n and above are sent through again until they fall below n ("cycle walking", Black and Rogaway, "Ciphers
// with arbitrary finite domains", 2002).
//
// Thread safety: pure functions.
#pragma once

#include "envs/philox.hpp"

namespace millrace {
inline namespace MILLRACE_ISA {

/// The order of one (shard, iteration, epoch).
struct ShuffleKey {
  std::uint32_t word[4];
  std::uint32_t n;
  std::uint32_t mask;
  int shift;
};

MILLRACE_FN ShuffleKey make_shuffle(std::uint64_t key, std::uint32_t shard, std::uint32_t iteration,
                                    std::uint32_t epoch, std::uint32_t n) {
  const auto block = philox4x32<std::uint32_t>(shard, iteration, kSampling, epoch, key);
  ShuffleKey shuffle{{block.word0, block.word1, block.word2, block.word3}, n, 0, 1};
  int bits = 0;
  while (bits < 32 && (n - 1) >> bits != 0) ++bits;
  shuffle.mask = bits == 32 ? 0xFFFFFFFFu : (1u << bits) - 1u;
  shuffle.shift = bits / 2 + 1;
  return shuffle;
}

/// Where sample `index` < n stands in the shuffled order.
template <class Word>
MILLRACE_FN Word shuffled(const ShuffleKey& shuffle, Word index) {
  Word x = index;
  auto outside = x == x;
  do {
    Word y = x;
    for (const std::uint32_t word : shuffle.word) {
      y = (y ^ (word & shuffle.mask)) * (((word >> 3) & ~7u) | 5u) & shuffle.mask;
      y = y ^ (y >> shuffle.shift);
    }
    x = select(outside, y, x);
    outside = outside & (x >= Word(shuffle.n));
  } while (any(outside));
  return x;
}

}  // namespace MILLRACE_ISA
}  // namespace millrace
