// The Q-network's layout and initial parameters; see network.hpp.
#include "kernels/network.hpp"

#include <algorithm>
#include <cmath>

#include "envs/philox.hpp"

namespace millrace {
namespace {

constexpr std::size_t aligned(std::size_t floats) { return (floats + 15) / 16 * 16; }

}  // namespace

Network make_network(int inputs, std::span<const int> hidden, int outputs, bool layer_norm) {
  Network network{};
  network.inputs = inputs;
  network.outputs = outputs;
  network.num_layers = static_cast<int>(hidden.size()) + 1;
  std::size_t offset = 0;
  const auto take = [&offset](std::size_t floats) {
    const std::size_t start = offset;
    offset += aligned(floats);
    return start;
  };
  int width = inputs;
  for (int l = 0; l < network.num_layers; ++l) {
    DenseLayer& layer = network.layers[l];
    const bool last = l == network.num_layers - 1;
    layer.inputs = width;
    layer.outputs = last ? outputs : hidden[static_cast<std::size_t>(l)];
    layer.activated = !last;
    layer.normalised = !last && layer_norm;
    layer.weight = take(static_cast<std::size_t>(layer.inputs) * static_cast<std::size_t>(layer.outputs));
    layer.bias = take(static_cast<std::size_t>(layer.outputs));
    layer.gain = layer.normalised ? take(static_cast<std::size_t>(layer.outputs)) : 0;
    layer.shift = layer.normalised ? take(static_cast<std::size_t>(layer.outputs)) : 0;
    width = layer.outputs;
    network.widest = std::max(network.widest, width);
  }
  network.parameters = offset;
  return network;
}

std::vector<ParameterTensor> parameter_tensors(const Network& network) {
  std::vector<ParameterTensor> tensors;
  for (int l = 0; l < network.num_layers; ++l) {
    const DenseLayer& layer = network.layers[l];
    const std::string prefix = "layers." + std::to_string(l) + ".";
    tensors.push_back({prefix + "weight", layer.weight, {layer.inputs, layer.outputs}});
    tensors.push_back({prefix + "bias", layer.bias, {layer.outputs}});
    if (layer.normalised) {
      tensors.push_back({prefix + "norm.weight", layer.gain, {layer.outputs}});
      tensors.push_back({prefix + "norm.bias", layer.shift, {layer.outputs}});
    }
  }
  return tensors;
}

void initialise_parameters(const Network& network, Initialisation how, std::uint64_t key,
                           std::span<float> parameters) {
  // A standard normal cut at +-2 has this standard deviation.
  constexpr double kTruncatedDeviation = 0.87962566103423978;
  std::fill(parameters.begin(), parameters.end(), 0.0f);
  for (int l = 0; l < network.num_layers; ++l) {
    const DenseLayer& layer = network.layers[l];
    const double variance = (how == Initialisation::kHeNormal ? 2.0 : 1.0) / layer.inputs;
    const double deviation = std::sqrt(variance) / kTruncatedDeviation;
    Draws draws(key, static_cast<std::uint32_t>(l), 0, kInitialisation);
    const std::size_t count = static_cast<std::size_t>(layer.inputs) * static_cast<std::size_t>(layer.outputs);
    for (std::size_t i = 0; i < count; ++i) {
      double normal = 3.0;
      while (std::abs(normal) > 2.0) {
        const double radius = std::sqrt(-2.0 * std::log(1.0 - static_cast<double>(draws.uniform())));
        normal = radius * std::cos(2.0 * 3.14159265358979323846 * static_cast<double>(draws.uniform()));
      }
      parameters[layer.weight + i] = static_cast<float>(normal * deviation);
    }
    if (layer.normalised) {
      std::fill_n(parameters.begin() + static_cast<std::ptrdiff_t>(layer.gain), layer.outputs, 1.0f);
    }
  }
}

}  // namespace millrace
