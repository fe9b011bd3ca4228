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

/// LayerNorm over `features` rows: y becomes gain * xhat + shift; with ReLU where `activated`. Where `normal` is given,
/// xhat is kept there and 1/deviation in `inverse` [kTile].
inline void normalise(float* y, int features, int columns, const float* gain, const float* shift, float* normal,
                      float* inverse) {
  const float scale = 1.0f / static_cast<float>(features);
  for (int s = 0; s < columns; s += native::kWidth) {
    // Four partial sums: one chain would wait four cycles an addition.
    RealLanes part[4] = {RealLanes(0.0f), RealLanes(0.0f), RealLanes(0.0f), RealLanes(0.0f)};
    for (int f = 0; f < features; ++f) part[f & 3] += RealLanes::load(y + f * kTile + s);
    const RealLanes mean = ((part[0] + part[1]) + (part[2] + part[3])) * scale;
    for (RealLanes& p : part) p = RealLanes(0.0f);
    for (int f = 0; f < features; ++f) {
      const RealLanes d = RealLanes::load(y + f * kTile + s) - mean;
      part[f & 3] = multiply_add(d, d, part[f & 3]);
    }
    const RealLanes variance = ((part[0] + part[1]) + (part[2] + part[3])) * scale;
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
