// How a chunk's samples are dealt out: fixed logical shards of instances, and in each its minibatches, drawn by a keyed
// bijection. The same on every device and for any number of workers or ranks.
//
// A shard's sample is (row, instance): row = step * agents + agent.
//
// Thread safety: values only.
#pragma once

#include "kernels/shuffle.hpp"

namespace millrace {
inline namespace MILLRACE_ISA {

struct Shards {
  int instances, num_shards, num_minibatches;
  int rows;  ///< steps * agents of a chunk

  /// First of the instances of `shard`, which may be num_shards.
  [[nodiscard]] MILLRACE_FN std::int64_t begin(std::int64_t shard) const { return shard * instances / num_shards; }
  [[nodiscard]] MILLRACE_FN std::int64_t samples(int shard) const { return (begin(shard + 1) - begin(shard)) * rows; }
  /// First of the samples of a minibatch in a shard's order.
  [[nodiscard]] MILLRACE_FN std::int64_t minibatch_begin(int shard, std::int64_t minibatch) const {
    return minibatch * samples(shard) / num_minibatches;
  }
  /// Samples of a minibatch, all shards together.
  [[nodiscard]] MILLRACE_FN std::int64_t minibatch_samples(int minibatch) const {
    std::int64_t sum = 0;
    for (int s = 0; s < num_shards; ++s) sum += minibatch_begin(s, minibatch + 1) - minibatch_begin(s, minibatch);
    return sum;
  }
};

/// The part of one minibatch that one shard brings.
struct ShardPart {
  std::int64_t begin, end;  ///< in the shard's shuffled order
  int first_instance, instances;
  ShuffleKey order;
};

MILLRACE_FN ShardPart shard_part(const Shards& shards, int shard, int minibatch, std::uint64_t key,
                                 std::uint32_t iteration, std::uint32_t epoch) {
  ShardPart part{};
  part.begin = shards.minibatch_begin(shard, minibatch);
  part.end = shards.minibatch_begin(shard, minibatch + 1);
  part.first_instance = static_cast<int>(shards.begin(shard));
  part.instances = static_cast<int>(shards.begin(shard + 1)) - part.first_instance;
  const auto samples = static_cast<std::uint32_t>(shards.samples(shard));
  if (samples > 0) part.order = make_shuffle(key, static_cast<std::uint32_t>(shard), iteration, epoch, samples);
  return part;
}

/// The sample that stands at `place` once shuffled.
struct SamplePlace {
  int step, agent, instance;
};
MILLRACE_FN SamplePlace sample_place(const ShardPart& part, int agents, std::uint32_t place) {
  const auto instances = static_cast<std::uint32_t>(part.instances);
  const int row = static_cast<int>(place / instances);
  return {row / agents, row % agents, part.first_instance + static_cast<int>(place % instances)};
}

}  // namespace MILLRACE_ISA
}  // namespace millrace
