// Schedules and memory plan of a cell; see cell.hpp.
#include "runtime/cell.hpp"

#include <algorithm>

#include "kernels/learner_kernels.hpp"

namespace millrace {

double epsilon_at(const ExperimentConfig& config, std::int64_t iteration) {
  const AlgoConfig& algo = config.algo;
  const double span = algo.epsilon_fraction * static_cast<double>(num_iterations(config));
  const double progress = span > 0.0 ? std::min(1.0, static_cast<double>(iteration) / span) : 1.0;
  return algo.epsilon_start + (algo.epsilon_end - algo.epsilon_start) * progress;
}

double learning_rate_at(const ExperimentConfig& config, std::int64_t update) {
  const AlgoConfig& algo = config.algo;
  const double span = algo.lr_fraction * static_cast<double>(num_iterations(config)) * algo.num_epochs *
                      algo.num_minibatches;
  const double progress = span > 0.0 ? std::min(1.0, static_cast<double>(update) / span) : 1.0;
  return algo.lr + (algo.lr_end - algo.lr) * progress;
}

std::vector<MemoryItem> memory_plan(const EnvironmentDescription& environment, const ExperimentConfig& config,
                                    int workers) {
  const InstanceLayout instances(config.env.num_envs, environment.state_words, environment.num_agents);
  const TrajectoryLayout trajectory(config.env.num_envs, config.algo.num_steps, environment.num_agents,
                                    environment.observation_words);
  const Network network = make_network(environment.observation_size, config.network.hidden,
                                       std::max(1, environment.max_actions), config.network.layer_norm);
  const std::size_t copies = 4 + (config.algo.average_decay > 0.0 ? 1 : 0);
  const std::size_t rows = static_cast<std::size_t>(network.widest + network.inputs) * kMaxLayers * 64 * 4;
  std::vector<MemoryItem> items = {
      {"environments", instances.words() * 4},
      {"transitions", trajectory.words() * 4},
      {"network and optimiser", network.parameters * 4 * copies},
      {"gradients of shards", network.parameters * 4 * static_cast<std::size_t>(config.algo.shards)},
      {"workspace of workers (at most)", rows * static_cast<std::size_t>(workers)}};
  std::sort(items.begin(), items.end(), [](const MemoryItem& a, const MemoryItem& b) { return a.bytes > b.bytes; });
  return items;
}

}  // namespace millrace
