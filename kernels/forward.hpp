// The network on a tile of samples: dense layers, LayerNorm, ReLU; samples in lanes. Compiled for each instruction set.
//
// Activations are [feature][kTile]. Each sample's result depends on that sample alone.
//
// Thread safety: pure functions on disjoint outputs.
#pragma once

#include "kernels/matrix.hpp"
#include "kernels/network.hpp"

namespace millrace {
inline namespace MILLRACE_ISA {

/// The sum of term(0) … term(n-1) in four chains: one alone would wait four cycles for every addition.
template <class Term>
MILLRACE_FN RealLanes sum_in_four(int n, Term term) {
  RealLanes part0(0.0f), part1(0.0f), part2(0.0f), part3(0.0f);
  int i = 0;
  for (; i + 4 <= n; i += 4) {
    part0 += term(i);
    part1 += term(i + 1);
    part2 += term(i + 2);
    part3 += term(i + 3);
  }
  if (i < n) part0 += term(i);
  if (i + 1 < n) part1 += term(i + 1);
  if (i + 2 < n) part2 += term(i + 2);
  return (part0 + part1) + (part2 + part3);
}

/// LayerNorm over `features` rows: y becomes gain * xhat + shift; with ReLU where `activated`. Where `normal` is given,
/// xhat is kept there and 1/deviation in `inverse` [kTile].
inline void normalise(float* y, int features, int columns, const float* gain, const float* shift, float* normal,
                      float* inverse) {
  const float scale = 1.0f / static_cast<float>(features);
  for (int s = 0; s < columns; s += native::kWidth) {
    const RealLanes mean =
        sum_in_four(features, [&](int f) { return RealLanes::load(y + f * kTile + s); }) * scale;
    const RealLanes variance = sum_in_four(features, [&](int f) {
                                 const RealLanes d = RealLanes::load(y + f * kTile + s) - mean;
                                 return d * d;
                               }) *
                               scale;
    const RealLanes rate = RealLanes(1.0f) / square_root(variance + kLayerNormEpsilon);
    if (inverse != nullptr) rate.store(inverse + s);
    for (int f = 0; f < features; ++f) {
      const RealLanes xhat = (RealLanes::load(y + f * kTile + s) - mean) * rate;
      if (normal != nullptr) xhat.store(normal + f * kTile + s);
      const RealLanes z = multiply_add(xhat, RealLanes(gain[f]), RealLanes(shift[f]));
      maximum(z, RealLanes(0.0f)).store(y + f * kTile + s);
    }
  }
}

/// One layer: x [inputs][kTile] to y [outputs][kTile], for the first `columns` samples (a multiple of 16).
inline void forward_layer(const DenseLayer& layer, const float* parameters, const float* x, int columns, float* y,
                          float* normal, float* inverse) {
  MatrixProduct p{};
  p.a = parameters + layer.weight;
  p.row_step = 1;
  p.k_step = layer.outputs;
  p.x = x;
  p.x_stride = kTile;
  p.y = y;
  p.y_stride = kTile;
  p.m = layer.outputs;
  p.k = layer.inputs;
  p.n = columns;
  p.bias = parameters + layer.bias;
  multiply<Start::kBias>(p);
  if (layer.normalised) {
    normalise(y, layer.outputs, columns, parameters + layer.gain, parameters + layer.shift, normal, inverse);
  } else if (layer.activated) {
    for (int f = 0; f < layer.outputs; ++f) {
      for (int s = 0; s < columns; s += native::kWidth) {
        float* place = y + f * kTile + s;
        maximum(RealLanes::load(place), RealLanes(0.0f)).store(place);
      }
    }
  }
}

/// Floats of scratch that infer() needs.
inline std::size_t inference_floats(const Network& network) {
  return 2 * static_cast<std::size_t>(network.widest) * kTile;
}

/// Q-values of a tile: x [inputs][kTile]. Returns where they lie, [outputs][kTile], inside `scratch`.
inline float* infer(const Network& network, const float* parameters, const float* x, int columns, float* scratch) {
  const std::size_t half = static_cast<std::size_t>(network.widest) * kTile;
  const float* input = x;
  float* output = scratch;
  for (int l = 0; l < network.num_layers; ++l) {
    output = scratch + (l & 1) * half;
    forward_layer(network.layers[l], parameters, input, columns, output, nullptr, nullptr);
    input = output;
  }
  return output;
}

}  // namespace MILLRACE_ISA
}  // namespace millrace
