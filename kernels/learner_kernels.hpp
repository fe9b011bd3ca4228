// What a learner does in one update, as a table of functions for each instruction set: gradients of each shard's part
// of the minibatch, their sum in the order of a fixed tree, and the optimiser.
//
//   loss = 1/2 * mean over the minibatch of (Q(s, a) - G)^2
//
// Nothing here is inline, so that files for different instruction sets may share it.
//
// Thread safety: functions that take a shard or a range of chunks may run at once on different ones.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/environment_kernels.hpp"
#include "kernels/instances.hpp"
#include "kernels/network.hpp"

namespace millrace {

/// Parameters that are reduced and updated together.
inline constexpr int kChunkFloats = 1024;
constexpr int num_chunks(const Network& network) {
  return static_cast<int>((network.parameters + kChunkFloats - 1) / kChunkFloats);
}

/// What each shard adds up besides gradients.
struct ShardSums {
  double squared_error;  ///< of Q(s, a) - G
  double value;          ///< of Q(s, a)
  std::int64_t samples;  ///< that count (not quarantined)
};

struct GradientArguments {
  const Network* network;
  const float* parameters;
  TrajectoryLayout trajectory_layout;
  const std::uint32_t* trajectory;
  bool is_image;
  int instances;
  int num_shards;
  int num_minibatches;
  std::uint64_t key;
  std::uint32_t iteration;  ///< of the trainer; keys the shuffle
  std::uint32_t epoch;
  int minibatch;
  float* gradients;  ///< [shard][network.parameters]
  ShardSums* sums;   ///< [shard], overwritten
};

struct ReduceArguments {
  std::size_t parameters;
  int num_shards;
  const float* gradients;  ///< [shard][parameters]
  float* gradient;         ///< [parameters]
  double* squared_norms;   ///< [chunk]
};

enum class Optimiser : std::int32_t { kSgd, kAdam, kRadam };

/// The numbers of one update; see make_optimiser_step().
struct OptimiserStep {
  Optimiser kind;
  float learning_rate;
  float beta1, beta2;       ///< beta1 is the momentum of kSgd
  float mean_scale;         ///< 1 / (1 - beta1^t)
  float square_scale;       ///< 1 / (1 - beta2^t)
  float epsilon;
  float rectification;      ///< of RAdam; 0: momentum only
  float max_norm;           ///< 0: no clipping
  float average_decay;      ///< 0: no average
};

struct UpdateArguments {
  std::size_t parameters;
  const float* gradient;
  const double* squared_norms;
  float* weights;
  float* mean;     ///< first moment
  float* square;   ///< second moment
  float* average;  ///< of the weights; null if not kept
  OptimiserStep step;
};

struct LearnerKernels {
  Isa isa;
  std::size_t (*scratch_bytes)(const Network&);  ///< for gradient(), 64-byte aligned
  void (*gradient)(const GradientArguments&, int shard, void* scratch);
  void (*reduce)(const ReduceArguments&, int first_chunk, int last_chunk);
  void (*update)(const UpdateArguments&, int first_chunk, int last_chunk);
};

/// `update`: how many came before, from 0. RAdam: Liu et al., "On the variance of the adaptive learning rate and
/// beyond", ICLR 2020 (rectified above rho = 5). Adam: Kingma and Ba, ICLR 2015.
[[nodiscard]] OptimiserStep make_optimiser_step(Optimiser kind, std::int64_t update, double learning_rate,
                                                double beta1, double beta2, double epsilon, double max_norm,
                                                double average_decay);

/// The table for `isa`, or null if this build has none.
[[nodiscard]] const LearnerKernels* learner_kernels(Isa isa);

}  // namespace millrace
