// The Q-network: dense layers, each hidden one followed by LayerNorm (optional) and ReLU; and where its parameters lie.
//
// All parameters of a network are one flat array of floats; each tensor starts at a multiple of 16. Weights are
// [input][output] with the output fastest.
//
// Thread safety: plain values and pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace millrace {

inline constexpr int kMaxLayers = 9;
inline constexpr float kLayerNormEpsilon = 1e-6f;

struct DenseLayer {
  int inputs, outputs;
  bool normalised;  ///< LayerNorm follows
  bool activated;   ///< ReLU follows
  std::size_t weight, bias;   ///< offsets, in floats
  std::size_t gain, shift;    ///< of the LayerNorm
};

struct Network {
  int num_layers;
  int inputs, outputs;
  int widest;              ///< the largest number of outputs of a layer
  std::size_t parameters;  ///< floats in all, padding included (padding stays zero)
  DenseLayer layers[kMaxLayers];
};

/// A named part of the parameters.
struct ParameterTensor {
  std::string name;  ///< as in PyTorch state dictionaries: "layers.0.weight"
  std::size_t offset;
  std::vector<std::int64_t> shape;
};

enum class Initialisation { kLecunNormal, kHeNormal };

/// REQUIRES: 1 <= hidden.size() < kMaxLayers, all sizes positive.
[[nodiscard]] Network make_network(int inputs, std::span<const int> hidden, int outputs, bool layer_norm);

[[nodiscard]] std::vector<ParameterTensor> parameter_tensors(const Network& network);

/// Weights from a normal distribution truncated at two standard deviations, with variance 1/inputs (LeCun) or
/// 2/inputs (He) after truncation; biases 0, gains 1, shifts 0. Drawn from the kInitialisation stream of `key`.
void initialise_parameters(const Network& network, Initialisation how, std::uint64_t key, std::span<float> parameters);

}  // namespace millrace
