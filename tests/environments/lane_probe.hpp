// Functions of envs/ and kernels/ that are inlined where they are called, made callable for each instruction
// set, on vectors: a test runs them and compares with the scalar ones. Arrays have a multiple of 16 elements.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/environment_kernels.hpp"

namespace millrace {

struct LaneProbe {
  int width;
  /// counters [4][count] to blocks [4][count].
  void (*philox)(const std::uint32_t* counters, std::uint64_t key, std::size_t count, std::uint32_t* blocks);
  /// `draws` words and `draws` uniforms in [low, high) of each instance's stream: [draw][count].
  void (*draws)(std::uint64_t key, std::uint32_t purpose, const std::uint32_t* instances,
                const std::uint32_t* steps, std::size_t count, int draws, float low, float high,
                std::uint32_t* words, float* uniforms);
  void (*below)(const std::uint32_t* words, std::uint32_t n, std::size_t count, std::uint32_t* results);
  /// Order of [0, count) under make_shuffle(key, shard, iteration, epoch, n), n <= count; `order` [count].
  void (*shuffle)(std::uint64_t key, std::uint32_t shard, std::uint32_t iteration, std::uint32_t epoch,
                  std::uint32_t n, std::size_t count, std::uint32_t* order);
};

/// The probe compiled for `isa`, or null if this build has none.
const LaneProbe* lane_probe(Isa isa);

}  // namespace millrace
