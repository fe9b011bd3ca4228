// bench_train and bench_rollout: environment steps per second of whole PQN training, and of rollout with a policy alone.
//
// Limit: the machine's peak of multiply-adds, measured in the same process on as many threads; the fraction is that of
// the floating-point operations of matrix products (forward 2, backward 4 for every weight and sample).
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "bench/limit_kernels.hpp"
#include "bench/measure.hpp"
#include "bench/options.hpp"
#include "kernels/network.hpp"
#include "runtime/cell.hpp"
#include "runtime/config_reader.hpp"
#include "runtime/cpu_device.hpp"
#include "runtime/error.hpp"
#include "runtime/registry.hpp"

namespace millrace::bench {
namespace {

#if defined(MILLRACE_BENCH_ROLLOUT)
constexpr bool kLearns = false;
constexpr const char* kKind = "rollout";
#else
constexpr bool kLearns = true;
constexpr const char* kKind = "train";
#endif

ExperimentConfig configuration(const Options& options) {
  const auto resolve = [](const std::string& id) { return parameter_fields(id); };
  ExperimentConfig config;
  if (!options.config.empty()) {
    config = load_config(options.config, options.overrides, resolve);
  } else {
    std::string hidden;
    for (const int width : options.hidden) hidden += (hidden.empty() ? "" : ", ") + std::to_string(width);
    const std::vector<std::string> overrides = {"env.id=" + options.env_id,
                                                "env.num_envs=" + std::to_string(options.num_envs),
                                                "network.hidden=[" + hidden + "]", "algo.total_steps=1000000000000"};
    config = parse_config("", kKind, overrides, resolve);
  }
  return config;
}

double weights_of(const Network& network) {
  double count = 0.0;
  for (int l = 0; l < network.num_layers; ++l) {
    count += static_cast<double>(network.layers[l].inputs) * network.layers[l].outputs;
  }
  return count;
}

int body(const Options& options) {
  const ExperimentConfig config = configuration(options);
  const EnvironmentDescription& environment = find_environment(config.env.id);
  CpuDevice device({.threads = options.threads});
  const std::unique_ptr<Cell> cell = make_cpu_cell(device, environment, config, options.isa);
  const std::unique_ptr<CpuStream> stream = device.make_cpu_stream({.name = "peak"});
  const LimitKernels& limit = *limit_kernels(options.isa);
  std::vector<float> sinks(static_cast<std::size_t>(options.threads) * 64, 0.5f);
  std::int64_t iteration = 0;
  const double chunk = static_cast<double>(config.env.num_envs) * config.algo.num_steps;

  const Subject training = [&](int n) {
    for (int i = 0; i < n; ++i) {
      if constexpr (kLearns) {
        cell->iterate(iteration, 0.1);
      } else {
        cell->roll_out(0.1);
      }
      cell->synchronize();
      ++iteration;
    }
    return n * chunk;
  };
  const Subject peak = [&](int n) {
    double operations = 0.0;
    stream->launch("peak", options.threads, [&](int block, int) {
      const double done = limit.multiply_adds(n * 1000, sinks.data() + block * 64);
      if (block == 0) operations = done;
    });
    stream->synchronize();
    return operations * options.threads;
  };
  const std::vector<Rate> rates = measure({training, peak}, options.repeats, 0.2);
  const int num_actions = environment.rules.num_actions(
      make_environment_config(environment, config.env.params).data());
  const Network network =
      make_network(environment.observation_size, config.network.hidden, num_actions, config.network.layer_norm);
  const double forward = 2.0 * weights_of(network) * environment.num_agents;
  const double per_step = forward * (kLearns ? 1.0 + 3.0 * config.algo.num_epochs : 1.0);
  const double gflops = rates[0].median * per_step * 1e-9;
  const double peak_gflops = rates[1].median * 1e-9;

  nlohmann::ordered_json json;
  json["kind"] = kKind;
  json["env_id"] = config.env.id;
  json["num_envs"] = config.env.num_envs;
  json["device"] = "cpu";
  json["threads"] = options.threads;
  json["isa"] = to_string(options.isa);
  json["steps_per_s"] = rates[0].median;
  json["steps_per_s_min"] = rates[0].low;
  json["steps_per_s_max"] = rates[0].high;
  json["limit"] = rates[1].median / per_step;
  json["fraction"] = gflops / peak_gflops;
  json["gflops"] = gflops;
  json["peak_gflops"] = peak_gflops;
  json["recipe"] = {{"hidden", config.network.hidden},
                    {"num_steps", config.algo.num_steps},
                    {"num_epochs", config.algo.num_epochs},
                    {"num_minibatches", config.algo.num_minibatches},
                    {"shards", config.algo.shards},
                    {"hold_max", config.algo.hold_max},
                    {"repeats", options.repeats},
                    {"pinned", device.pinned()},
                    {"cpu", cpu_model()},
                    {"compiler", compiler()}};
  if (options.json) {
    fmt::print("{}\n", json.dump());
    return 0;
  }
  fmt::print("{} {}, {} instances, {} thread(s), {}: {:.3g} steps/s ({:.3g} to {:.3g})\n"
             "{:.1f} GFLOP/s of {:.1f} at most: {:.0f} %\n{}\n",
             kKind, config.env.id, config.env.num_envs, options.threads, to_string(options.isa), rates[0].median,
             rates[0].low, rates[0].high, gflops, peak_gflops, 100.0 * gflops / peak_gflops, json["recipe"].dump());
  return 0;
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  return millrace::bench::run_benchmark(argc, argv, MILLRACE_BENCH_NAME, millrace::bench::body);
}
