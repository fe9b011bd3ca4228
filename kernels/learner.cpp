// One update on a CPU; compiled for each instruction set. See learner_kernels.hpp.
//
// A shard's samples go through forward, backward and weight gradients tile by tile, so that activations stay in the
// second-level cache. Sums over samples run in the order of samples (weights), or in 16 chains by sample index modulo
// 16 that are joined by a fixed tree (biases, LayerNorm): the same bits for any vector width with fused multiply-add.
#include <algorithm>
#include <cstring>
#include <limits>

#include "kernels/forward.hpp"
#include "kernels/learner_kernels.hpp"
#include "kernels/optimiser_rules.hpp"
#include "kernels/shards.hpp"

namespace millrace {
inline namespace MILLRACE_ISA {

/// Weights of layers with at most this many outputs are summed in 16 chains; a full vector of outputs would be mostly
/// padding.
inline constexpr int kNarrow = 8;

constexpr int rounded(int n) { return (n + 15) / 16 * 16; }

/// Where one worker keeps a tile's activations and a shard's sums.
struct Workspace {
  float* input;                  ///< [inputs][kTile]
  float* activation[kMaxLayers]; ///< outputs of each layer
  float* normal[kMaxLayers];     ///< xhat
  float* inverse[kMaxLayers];    ///< 1 / deviation
  float* delta;                  ///< d loss / d (outputs of the layer at hand), [rows][kTile]
  float* other;
  float* transposed;             ///< [kTile][rounded(outputs)]
  float* bias_chains[kMaxLayers];    ///< [outputs][16]
  float* gain_chains[kMaxLayers];
  float* shift_chains[kMaxLayers];
  float* weight_chains;          ///< of the last layer, if narrow: [inputs * outputs][16]
  float* chains_begin;
  std::size_t chain_floats;
  std::size_t floats;

  Workspace(const Network& network, float* base) {
    float* next = base;
    const auto take = [&next](std::size_t count) {
      float* place = next;
      next += (count + 15) / 16 * 16;
      return place;
    };
    const auto rows = [](int n) { return static_cast<std::size_t>(rounded(n)) * kTile; };
    input = take(rows(network.inputs));
    for (int l = 0; l < network.num_layers; ++l) {
      activation[l] = take(rows(network.layers[l].outputs));
      normal[l] = take(rows(network.layers[l].outputs));
      inverse[l] = take(kTile);
    }
    const int widest = std::max(network.widest, network.inputs);
    delta = take(rows(widest));
    other = take(rows(widest));
    transposed = take(rows(widest));
    chains_begin = next;
    for (int l = 0; l < network.num_layers; ++l) {
      const std::size_t count = static_cast<std::size_t>(network.layers[l].outputs) * kGroup;
      bias_chains[l] = take(count);
      gain_chains[l] = take(count);
      shift_chains[l] = take(count);
    }
    const DenseLayer& last = network.layers[network.num_layers - 1];
    weight_chains = take(last.outputs <= kNarrow
                             ? static_cast<std::size_t>(last.inputs) * static_cast<std::size_t>(last.outputs) * kGroup
                             : 0);
    chain_floats = static_cast<std::size_t>(next - chains_begin);
    floats = static_cast<std::size_t>(next - base);
  }
};

static std::size_t scratch_bytes(const Network& network) {
  // A null base would make pointer arithmetic undefined.
  alignas(64) static float origin[16];
  return Workspace(network, origin).floats * sizeof(float);
}

/// The targets of a tile.
struct Tile {
  int count;    ///< samples
  int columns;  ///< rounded up to 16
  alignas(64) std::int32_t action[kTile];
  alignas(64) float target[kTile];
  alignas(64) float weight[kTile];  ///< 1, or 0 for padding and quarantined transitions
};

/// Fetches samples [first, first + tile.count) of the shard's shuffled order.
static void gather(const GradientArguments& args, const ShardPart& part, std::uint32_t first, Tile& tile,
                   float* input) {
  const TrajectoryLayout& t = args.trajectory_layout;
  alignas(64) std::uint32_t place[kTile];
  for (int s = 0; s < tile.columns; s += native::kWidth) {
    for (int l = 0; l < native::kWidth; ++l) {
      place[s + l] = std::min(first + static_cast<std::uint32_t>(s + l), part.order.n - 1);
    }
    shuffled(part.order, WordLanes::load(place + s)).store(place + s);
  }
  const int size = args.network->inputs;
  for (int s = 0; s < tile.columns; ++s) {
    if (s >= tile.count) {
      for (int i = 0; i < size; ++i) input[i * kTile + s] = 0.0f;
      tile.action[s] = 0;
      tile.target[s] = tile.weight[s] = 0.0f;
      continue;
    }
    const auto [step, agent, instance] = sample_place(part, t.agents, place[s]);
    const std::uint32_t* observation = args.trajectory + t.observation(step, agent) + instance;
    float sum = 0.0f;
    if (args.is_image) {
      for (int i = 0; i < size; ++i) {
        const std::uint32_t word = observation[static_cast<std::size_t>(i >> 5) * t.stride];
        input[i * kTile + s] = ((word >> (i & 31)) & 1u) != 0 ? 1.0f : 0.0f;
      }
    } else {
      for (int i = 0; i < size; ++i) {
        std::memcpy(input + i * kTile + s, observation + static_cast<std::size_t>(i) * t.stride, sizeof(float));
        sum += input[i * kTile + s];
      }
    }
    std::memcpy(&tile.action[s], args.trajectory + t.action(step, agent) + instance, sizeof(float));
    std::memcpy(&tile.target[s], args.trajectory + t.target(step, agent) + instance, sizeof(float));
    // An episode may begin with an observation that is not finite; NaN times a weight of 0 is still NaN, so that a
    // dropped sample's inputs go too.
    const bool finite = __builtin_fabsf(sum) < std::numeric_limits<float>::infinity();
    const bool dropped = !finite || (args.trajectory[t.flags(step) + instance] & kQuarantined) != 0;
    tile.weight[s] = dropped ? 0.0f : 1.0f;
    if (dropped) {
      tile.target[s] = 0.0f;
      for (int i = 0; i < size; ++i) input[i * kTile + s] = 0.0f;
    }
  }
}

/// Q of the tile against its targets: the last layer's delta, and the shard's sums.
static void compare(const Network& network, const Tile& tile, const float* q, float scale, float* delta,
                    ShardSums& sums) {
  for (int s = 0; s < tile.columns; s += native::kWidth) {
    const IntegerLanes action = IntegerLanes::load(tile.action + s);
    RealLanes chosen(0.0f);
    for (int o = 0; o < network.outputs; ++o) {
      chosen = select(action == IntegerLanes(o), RealLanes::load(q + o * kTile + s), chosen);
    }
    const RealLanes weight = RealLanes::load(tile.weight + s);
    const RealLanes error = (chosen - RealLanes::load(tile.target + s)) * weight;
    const RealLanes slope = error * scale;
    for (int o = 0; o < network.outputs; ++o) {
      select(action == IntegerLanes(o), slope, RealLanes(0.0f)).store(delta + o * kTile + s);
    }
    alignas(64) float errors[native::kWidth];
    alignas(64) float values[native::kWidth];
    error.store(errors);
    (chosen * weight).store(values);
    for (int l = 0; l < native::kWidth; ++l) {
      sums.squared_error += static_cast<double>(errors[l]) * static_cast<double>(errors[l]);
      sums.value += static_cast<double>(values[l]);
      sums.samples += tile.weight[s + l] > 0.0f ? 1 : 0;
    }
  }
}

/// Adds the rows of `delta` to chains [rows][16].
static void add_to_chains(const float* delta, int rows, int columns, float* chains) {
  for (int r = 0; r < rows; ++r) {
    for (int l = 0; l < kGroup; l += native::kWidth) {
      RealLanes sum = RealLanes::load(chains + r * kGroup + l);
      for (int s = l; s < columns; s += kGroup) sum += RealLanes::load(delta + r * kTile + s);
      sum.store(chains + r * kGroup + l);
    }
  }
}

/// chains[i][o] += x[i] * delta[o], for a narrow layer.
static void add_products_to_chains(const float* x, int inputs, const float* delta, int outputs, int columns,
                                   float* chains) {
  for (int i = 0; i < inputs; ++i) {
    for (int o = 0; o < outputs; ++o) {
      float* place = chains + (i * outputs + o) * kGroup;
      for (int l = 0; l < kGroup; l += native::kWidth) {
        RealLanes sum = RealLanes::load(place + l);
        for (int s = l; s < columns; s += kGroup) {
          sum = multiply_add(RealLanes::load(x + i * kTile + s), RealLanes::load(delta + o * kTile + s), sum);
        }
        sum.store(place + l);
      }
    }
  }
}

/// Joins 16 chains into one sum by halving.
static float join(const float* chains) {
  float part[kGroup];
  std::memcpy(part, chains, sizeof(part));
  for (int half = kGroup / 2; half >= 1; half /= 2) {
    for (int l = 0; l < half; ++l) part[l] += part[l + half];
  }
  return part[0];
}

/// Through ReLU and LayerNorm, for V vectors of samples: on entry `delta` is d loss / d activation, on return
/// d loss / d (dense outputs). Pointers are those of the first sample.
template <int V>
static void backward_normalise_vectors(const DenseLayer& layer, const float* parameters, const float* activation,
                                       const float* normal, const float* inverse, float* delta, float* gain_chains,
                                       float* shift_chains) {
  constexpr int w = native::kWidth;
  constexpr int kParts = kGroup / w;  // vectors between two samples of one chain
  RealLanes sum[V], product[V];
  for (int v = 0; v < V; ++v) sum[v] = product[v] = RealLanes(0.0f);
  for (int f = 0; f < layer.outputs; ++f) {
    const RealLanes gain(parameters[layer.gain + static_cast<std::size_t>(f)]);
    RealLanes gain_part[kParts], shift_part[kParts];
    for (int p = 0; p < kParts; ++p) {
      gain_part[p] = RealLanes::load(gain_chains + f * kGroup + p * w);
      shift_part[p] = RealLanes::load(shift_chains + f * kGroup + p * w);
    }
    for (int v = 0; v < V; ++v) {
      const int place = f * kTile + v * w;
      const RealLanes live =
          select(RealLanes::load(activation + place) > RealLanes(0.0f), RealLanes::load(delta + place), RealLanes(0.0f));
      const RealLanes xhat = RealLanes::load(normal + place);
      shift_part[v % kParts] += live;
      gain_part[v % kParts] = multiply_add(live, xhat, gain_part[v % kParts]);
      const RealLanes scaled = live * gain;
      scaled.store(delta + place);
      sum[v] += scaled;
      product[v] = multiply_add(scaled, xhat, product[v]);
    }
    for (int p = 0; p < kParts; ++p) {
      gain_part[p].store(gain_chains + f * kGroup + p * w);
      shift_part[p].store(shift_chains + f * kGroup + p * w);
    }
  }
  const float scale = 1.0f / static_cast<float>(layer.outputs);
  RealLanes rate[V];
  for (int v = 0; v < V; ++v) {
    sum[v] = sum[v] * scale;
    product[v] = product[v] * scale;
    rate[v] = RealLanes::load(inverse + v * w);
  }
  for (int f = 0; f < layer.outputs; ++f) {
    for (int v = 0; v < V; ++v) {
      const int place = f * kTile + v * w;
      const RealLanes centred = RealLanes::load(delta + place) - sum[v];
      (multiply_add(-RealLanes::load(normal + place), product[v], centred) * rate[v]).store(delta + place);
    }
  }
}

static void backward_normalise(const DenseLayer& layer, const float* parameters, const float* activation,
                               const float* normal, const float* inverse, int columns, float* delta,
                               float* gain_chains, float* shift_chains) {
  // As many samples at once as there are registers for: 64 with AVX-512, else 16.
  constexpr int kVectors = native::kWidth >= 16 ? kTile / native::kWidth : kGroup / native::kWidth;
  constexpr int kSamples = kVectors * native::kWidth;
  int s = 0;
  for (; s + kSamples <= columns; s += kSamples) {
    backward_normalise_vectors<kVectors>(layer, parameters, activation + s, normal + s, inverse + s, delta + s,
                                         gain_chains, shift_chains);
  }
  for (; s < columns; s += kGroup) {
    backward_normalise_vectors<kGroup / native::kWidth>(layer, parameters, activation + s, normal + s, inverse + s,
                                                        delta + s, gain_chains, shift_chains);
  }
}

static void backward_relu(const float* activation, int rows, int columns, float* delta) {
  for (int f = 0; f < rows; ++f) {
    for (int s = 0; s < columns; s += native::kWidth) {
      float* place = delta + f * kTile + s;
      select(RealLanes::load(activation + f * kTile + s) > RealLanes(0.0f), RealLanes::load(place), RealLanes(0.0f))
          .store(place);
    }
  }
}

/// Weight gradients of one layer from `delta` [outputs][kTile] and its inputs x [inputs][kTile].
static void weight_gradient(const DenseLayer& layer, const float* x, const float* delta, int columns, bool first,
                            float* transposed, float* gradient) {
  const int stride = rounded(layer.outputs);
  transpose(delta, layer.outputs, transposed, stride);
  MatrixProduct p{};
  p.a = x;
  p.row_step = kTile;
  p.k_step = 1;
  p.x = transposed;
  p.x_stride = stride;
  p.y = gradient;
  p.y_stride = layer.outputs;
  p.m = layer.inputs;
  p.k = columns;
  p.n = layer.outputs;
  if (first) {
    multiply<Start::kZero>(p);
  } else {
    multiply<Start::kSum>(p);
  }
}

/// d loss / d inputs of a layer: W delta.
static void input_gradient(const DenseLayer& layer, const float* parameters, const float* delta, int columns,
                           float* result) {
  MatrixProduct p{};
  p.a = parameters + layer.weight;
  p.row_step = layer.outputs;
  p.k_step = 1;
  p.x = delta;
  p.x_stride = kTile;
  p.y = result;
  p.y_stride = kTile;
  p.m = layer.inputs;
  p.k = layer.outputs;
  p.n = columns;
  multiply<Start::kZero>(p);
}

static void backward(const Network& network, const float* parameters, const Tile& tile, bool first, Workspace& work,
                     float* gradient) {
  float* delta = work.delta;
  float* other = work.other;
  for (int l = network.num_layers - 1; l >= 0; --l) {
    const DenseLayer& layer = network.layers[l];
    const float* x = l == 0 ? work.input : work.activation[l - 1];
    add_to_chains(delta, layer.outputs, tile.columns, work.bias_chains[l]);
    if (l == network.num_layers - 1 && layer.outputs <= kNarrow) {
      add_products_to_chains(x, layer.inputs, delta, layer.outputs, tile.columns, work.weight_chains);
    } else {
      weight_gradient(layer, x, delta, tile.columns, first, work.transposed, gradient + layer.weight);
    }
    if (l == 0) break;
    input_gradient(layer, parameters, delta, tile.columns, other);
    std::swap(delta, other);
    const DenseLayer& below = network.layers[l - 1];
    if (below.normalised) {
      backward_normalise(below, parameters, work.activation[l - 1], work.normal[l - 1], work.inverse[l - 1],
                         tile.columns, delta, work.gain_chains[l - 1], work.shift_chains[l - 1]);
    } else {
      backward_relu(work.activation[l - 1], below.outputs, tile.columns, delta);
    }
  }
}

/// The chains' sums into the gradient.
static void join_chains(const Network& network, const Workspace& work, float* gradient) {
  for (int l = 0; l < network.num_layers; ++l) {
    const DenseLayer& layer = network.layers[l];
    for (int o = 0; o < layer.outputs; ++o) {
      gradient[layer.bias + static_cast<std::size_t>(o)] = join(work.bias_chains[l] + o * kGroup);
      if (!layer.normalised) continue;
      gradient[layer.gain + static_cast<std::size_t>(o)] = join(work.gain_chains[l] + o * kGroup);
      gradient[layer.shift + static_cast<std::size_t>(o)] = join(work.shift_chains[l] + o * kGroup);
    }
  }
  const DenseLayer& last = network.layers[network.num_layers - 1];
  if (last.outputs <= kNarrow) {
    for (int i = 0; i < last.inputs * last.outputs; ++i) {
      gradient[last.weight + static_cast<std::size_t>(i)] = join(work.weight_chains + i * kGroup);
    }
  }
}

static Shards shards_of(const GradientArguments& args) {
  return {args.instances, args.num_shards, args.num_minibatches,
          args.trajectory_layout.num_steps * args.trajectory_layout.agents};
}

static void gradient(const GradientArguments& args, int shard, void* scratch) {
  const Network& network = *args.network;
  Workspace work(network, static_cast<float*>(scratch));
  std::memset(work.chains_begin, 0, work.chain_floats * sizeof(float));
  float* result = args.gradients + static_cast<std::size_t>(shard) * network.parameters;
  ShardSums sums{};

  const Shards shards = shards_of(args);
  const float scale = 1.0f / static_cast<float>(shards.minibatch_samples(args.minibatch));
  const ShardPart part = shard_part(shards, shard, args.minibatch, args.key, args.iteration, args.epoch);
  if (part.begin == part.end) std::memset(result, 0, network.parameters * sizeof(float));
  Tile tile;
  for (std::int64_t first = part.begin; first < part.end; first += kTile) {
    tile.count = static_cast<int>(std::min<std::int64_t>(kTile, part.end - first));
    tile.columns = rounded(tile.count);
    gather(args, part, static_cast<std::uint32_t>(first), tile, work.input);
    const float* x = work.input;
    for (int l = 0; l < network.num_layers; ++l) {
      forward_layer(network.layers[l], args.parameters, x, tile.columns, work.activation[l], work.normal[l],
                    work.inverse[l]);
      x = work.activation[l];
    }
    compare(network, tile, x, scale, work.delta, sums);
    backward(network, args.parameters, tile, first == part.begin, work, result);
  }
  join_chains(network, work, result);
  args.sums[shard] = sums;
}

/// Sum of `count` (a power of two) values, `step` apart, as a balanced tree.
static RealLanes tree_sum(const float* place, std::size_t step, int count) {
  if (count == 1) return RealLanes::load(place);
  return tree_sum(place, step, count / 2) +
         tree_sum(place + static_cast<std::size_t>(count / 2) * step, step, count / 2);
}

static void reduce(const ReduceArguments& args, int first_chunk, int last_chunk) {
  for (int chunk = first_chunk; chunk < last_chunk; ++chunk) {
    const std::size_t begin = static_cast<std::size_t>(chunk) * kChunkFloats;
    const std::size_t end = std::min(args.parameters, begin + kChunkFloats);
    alignas(64) float chains[kGroup] = {};
    for (std::size_t i = begin; i < end; i += native::kWidth) {
      const RealLanes sum = tree_sum(args.gradients + i, args.parameters, args.num_shards);
      sum.store(args.gradient + i);
      float* chain = chains + i % kGroup;
      multiply_add(sum, sum, RealLanes::load(chain)).store(chain);
    }
    args.squared_norms[chunk] = static_cast<double>(join(chains));
  }
}

static void update(const UpdateArguments& args, int first_chunk, int last_chunk) {
  const OptimiserStep& step = args.step;
  double squared = 0.0;
  for (std::size_t c = 0; c * kChunkFloats < args.parameters; ++c) squared += args.squared_norms[c];
  const float clip = clip_factor(step, squared);
  const std::size_t begin = static_cast<std::size_t>(first_chunk) * kChunkFloats;
  const std::size_t end = std::min(args.parameters, static_cast<std::size_t>(last_chunk) * kChunkFloats);
  for (std::size_t i = begin; i < end; i += native::kWidth) {
    const Parameter<RealLanes> p =
        updated(step, {RealLanes::load(args.weights + i), RealLanes::load(args.mean + i),
                       RealLanes::load(args.square + i)},
                RealLanes::load(args.gradient + i) * clip);
    p.weight.store(args.weights + i);
    p.mean.store(args.mean + i);
    p.square.store(args.square + i);
    if (args.average != nullptr) {
      averaged(step, RealLanes::load(args.average + i), p.weight).store(args.average + i);
    }
  }
}

extern const LearnerKernels kLearnerKernels;
const LearnerKernels kLearnerKernels = {static_cast<Isa>(MILLRACE_ISA_LEVEL), &scratch_bytes, &gradient, &reduce,
                                        &update};

}  // namespace MILLRACE_ISA
}  // namespace millrace
