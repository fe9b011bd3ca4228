// Rules that join several keys.
#include <fmt/format.h>

#include "runtime/config_schema.hpp"

namespace millrace::configuration {
namespace {

using Problem = std::optional<std::string>;

// Instances are shared out over the shards as evenly as possible, so the smallest shard decides.
Problem minibatches_without_samples(const ExperimentConfig& config) {
  const AlgoConfig& algo = config.algo;
  const std::int64_t smallest = std::int64_t{config.env.num_envs / algo.shards} * algo.num_steps;
  if (algo.num_minibatches <= smallest) return std::nullopt;
  return fmt::format(
      "algo.num_minibatches is {}, but the smallest of algo.shards = {} shards holds env.num_envs / "
      "algo.shards x "
      "algo.num_steps = {} x {} = {} samples of a rollout; allowed: at most {} minibatches, so that each has "
      "a sample "
      "(sizes may differ by one)",
      algo.num_minibatches, algo.shards, config.env.num_envs / algo.shards, algo.num_steps, smallest,
      smallest);
}

Problem less_than_one_rollout(const ExperimentConfig& config) {
  const std::int64_t rollout = std::int64_t{config.env.num_envs} * config.algo.num_steps;
  if (config.algo.total_steps >= rollout) return std::nullopt;
  return fmt::format(
      "algo.total_steps is {}, less than one rollout of env.num_envs x algo.num_steps = {} x {} = {} steps; "
      "allowed: "
      "at least {}",
      config.algo.total_steps, config.env.num_envs, config.algo.num_steps, rollout, rollout);
}

Problem empty_shards(const ExperimentConfig& config) {
  if (config.algo.shards <= config.env.num_envs) return std::nullopt;
  return fmt::format(
      "algo.shards is {}, but there are only {} instances to share out; allowed: at most env.num_envs",
      config.algo.shards, config.env.num_envs);
}

}  // namespace

const std::vector<CrossCheck>& cross_checks() {
  static const std::vector<CrossCheck> checks = {
      {{"algo.shards", "env.num_envs"}, empty_shards},
      {{"algo.num_minibatches", "algo.shards", "env.num_envs", "algo.num_steps"},
       minibatches_without_samples},
      {{"algo.total_steps", "env.num_envs", "algo.num_steps"}, less_than_one_rollout},
  };
  return checks;
}

std::optional<Conflict> find_conflict(const ExperimentConfig& config,
                                      const std::function<bool(const Key&)>& is_set) {
  for (const Key& key : schema()) {
    if (key.only_with && !key.only_with->holds(config) && is_set(key))
      return Conflict{
          {key.name},
          fmt::format("{} has no meaning here; allowed: only with {}", key.name, key.only_with->text)};
  }
  for (const CrossCheck& check : cross_checks()) {
    if (auto problem = check.problem(config)) return Conflict{check.keys, *problem};
  }
  return std::nullopt;
}

}  // namespace millrace::configuration
