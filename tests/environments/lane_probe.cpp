// Compiled for each instruction set; see lane_probe.hpp.
#include "tests/environments/lane_probe.hpp"

#include "envs/philox.hpp"
#include "kernels/shuffle.hpp"

namespace millrace {
inline namespace MILLRACE_ISA {

constexpr std::size_t kWidth = static_cast<std::size_t>(Vector::width);

static void probe_philox(const std::uint32_t* counters, std::uint64_t key, std::size_t count,
                         std::uint32_t* blocks) {
  for (std::size_t i = 0; i < count; i += kWidth) {
    const auto word = [&](std::size_t w) { return WordLanes::load(counters + w * count + i); };
    const auto block = philox4x32<WordLanes>(word(0), word(1), word(2), word(3), key);
    block.word0.store(blocks + i);
    block.word1.store(blocks + count + i);
    block.word2.store(blocks + 2 * count + i);
    block.word3.store(blocks + 3 * count + i);
  }
}

static void probe_draws(std::uint64_t key, std::uint32_t purpose, const std::uint32_t* instances,
                        const std::uint32_t* steps, std::size_t count, int draws, float low, float high,
                        std::uint32_t* words, float* uniforms) {
  for (std::size_t i = 0; i < count; i += kWidth) {
    DrawsOf<Vector> bits(key, WordLanes::load(instances + i), WordLanes::load(steps + i), purpose);
    DrawsOf<Vector> reals(key, WordLanes::load(instances + i), WordLanes::load(steps + i), purpose);
    for (int d = 0; d < draws; ++d) {
      bits.bits().store(words + static_cast<std::size_t>(d) * count + i);
      reals.uniform(low, high).store(uniforms + static_cast<std::size_t>(d) * count + i);
    }
  }
}

static void probe_below(const std::uint32_t* words, std::uint32_t n, std::size_t count,
                        std::uint32_t* results) {
  for (std::size_t i = 0; i < count; i += kWidth)
    multiply_high(WordLanes::load(words + i), n).store(results + i);
}

static void probe_shuffle(std::uint64_t key, std::uint32_t shard, std::uint32_t iteration,
                          std::uint32_t epoch, std::uint32_t n, std::size_t count, std::uint32_t* order) {
  const ShuffleKey shuffle = make_shuffle(key, shard, iteration, epoch, n);
  for (std::size_t i = 0; i < count; i += kWidth) {
    std::uint32_t index[kWidth];
    for (std::size_t l = 0; l < kWidth; ++l) {
      const auto at = static_cast<std::uint32_t>(i + l);
      index[l] = at < n ? at : n - 1;
    }
    shuffled(shuffle, WordLanes::load(index)).store(order + i);
  }
}

extern const LaneProbe kLaneProbe;
const LaneProbe kLaneProbe = {Vector::width, &probe_philox, &probe_draws, &probe_below, &probe_shuffle};

}  // namespace MILLRACE_ISA
}  // namespace millrace
