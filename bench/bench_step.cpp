// bench_step: environment steps per second, random actions, observations written, no policy.
//
// Limit for CartPole: the smallest loop of limit_kernels.hpp on the same workers. For the others: the plain scalar rules
// (reference) on the same workers, of which the vector rules should be a multiple.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "bench/limit_kernels.hpp"
#include "bench/measure.hpp"
#include "bench/options.hpp"
#include "runtime/cpu_device.hpp"
#include "runtime/registry.hpp"

namespace millrace::bench {
namespace {

constexpr int kChunk = 64;        // steps of one launch
constexpr int kBlockGroups = 16;  // groups of 16 instances in one block

/// All instances of one environment, stepped through one table.
class Stepping {
 public:
  Stepping(CpuDevice& device, const EnvironmentDescription& environment, const EnvironmentKernels& kernels, int instances)
      : kernels_(kernels),
        layout_(instances, environment.state_words, environment.num_agents),
        instances_(device, layout_.words()),
        observations_(device, static_cast<std::size_t>(environment.observation_words * environment.num_agents) *
                                  static_cast<std::size_t>(layout_.stride)),
        stream_(device.make_cpu_stream({.name = "step"})) {
    std::fill_n(instances_.get(), instances_.size(), 0u);
    args_.config = environment.default_config.data();
    args_.key = 1;
    args_.layout = layout_;
    args_.instances = instances_.get();
    args_.num_steps = kChunk;
    args_.source = ActionSource::kRandom;
    args_.observations = observations_.get();
    kernels_.reset(args_, 0, groups(), true);
  }

  double run(int chunks) {
    const int blocks = (groups() + kBlockGroups - 1) / kBlockGroups;
    for (int i = 0; i < chunks; ++i) {
      stream_->launch("step", blocks, [this](int block, int) {
        kernels_.step(args_, block * kBlockGroups, std::min(groups(), (block + 1) * kBlockGroups));
      });
    }
    stream_->synchronize();
    return static_cast<double>(chunks) * kChunk * layout_.instances;
  }

 private:
  [[nodiscard]] int groups() const { return layout_.stride / kGroup; }
  const EnvironmentKernels& kernels_;
  InstanceLayout layout_;
  Buffer<std::uint32_t> instances_, observations_;
  StepArguments args_{};
  std::unique_ptr<CpuStream> stream_;
};

/// The same instances of CartPole through the smallest loop.
class SmallestLoop {
 public:
  SmallestLoop(CpuDevice& device, const LimitKernels& kernels, int instances)
      : kernels_(kernels),
        instances_(instances),
        stride_(padded(instances)),
        floats_(device, static_cast<std::size_t>(8 * stride_)),
        words_(device, static_cast<std::size_t>(2 * stride_)),
        stream_(device.make_cpu_stream({.name = "limit"})) {
    std::fill_n(floats_.get(), floats_.size(), 0.0f);
    std::fill_n(words_.get(), words_.size(), 0u);
    state_ = {floats_.get(), words_.get(), reinterpret_cast<std::int32_t*>(words_.get() + stride_),
              floats_.get() + 4 * stride_, stride_};
  }
  double run(int chunks) {
    const int groups = stride_ / kGroup;
    for (int i = 0; i < chunks; ++i) {
      stream_->launch("limit", (groups + kBlockGroups - 1) / kBlockGroups, [this, groups](int block, int) {
        for (int g = block * kBlockGroups; g < std::min(groups, (block + 1) * kBlockGroups); ++g) {
          kernels_.cartpole(state_, 1, g * kGroup, kChunk);
        }
      });
    }
    stream_->synchronize();
    return static_cast<double>(chunks) * kChunk * instances_;
  }

 private:
  const LimitKernels& kernels_;
  int instances_, stride_;
  Buffer<float> floats_;
  Buffer<std::uint32_t> words_;
  LimitState state_{};
  std::unique_ptr<CpuStream> stream_;
};

int body(const Options& options) {
  const EnvironmentDescription& environment = find_environment(options.env_id);
  const EnvironmentKernels& kernels = kernels_for(environment, options.isa);
  CpuDevice device({.threads = options.threads});
  Stepping ours(device, environment, kernels, options.num_envs);
  const bool is_cartpole = options.env_id == "CartPole-v1";
  std::optional<SmallestLoop> limit;
  if (is_cartpole) limit.emplace(device, *limit_kernels(options.isa), options.num_envs);
  Stepping scalar(device, environment, kernels_for(environment, Isa::kReference), options.num_envs);

  std::vector<Subject> subjects = {[&](int n) { return ours.run(n); }, [&](int n) { return scalar.run(n); }};
  if (limit) subjects.push_back([&](int n) { return limit->run(n); });
  const std::vector<Rate> rates = measure(subjects, options.repeats);
  const Rate& rate = rates[0];
  const double scalar_ratio = rate.median / rates[1].median;

  nlohmann::ordered_json json;
  json["kind"] = "step";
  json["env_id"] = options.env_id;
  json["num_envs"] = options.num_envs;
  json["device"] = "cpu";
  json["threads"] = options.threads;
  json["isa"] = to_string(options.isa);
  json["steps_per_s"] = rate.median;
  json["steps_per_s_min"] = rate.low;
  json["steps_per_s_max"] = rate.high;
  json["limit"] = limit ? nlohmann::ordered_json(rates[2].median) : nlohmann::ordered_json(nullptr);
  json["fraction"] = limit ? nlohmann::ordered_json(rate.median / rates[2].median) : nlohmann::ordered_json(nullptr);
  json["scalar_steps_per_s"] = rates[1].median;
  json["scalar_ratio"] = scalar_ratio;
  json["recipe"] = {{"actions", "random"}, {"steps_per_launch", kChunk}, {"repeats", options.repeats},
                    {"pinned", device.pinned()}, {"cpu", cpu_model()}, {"compiler", compiler()}};
  if (options.json) {
    fmt::print("{}\n", json.dump());
    return 0;
  }
  fmt::print("{}, {} instances, {} thread(s), {}: {:.3g} steps/s ({:.3g} to {:.3g})\n", options.env_id, options.num_envs,
             options.threads, to_string(options.isa), rate.median, rate.low, rate.high);
  if (limit) fmt::print("limit (smallest loop): {:.3g} steps/s, reached {:.0f} %\n", rates[2].median,
                        100.0 * rate.median / rates[2].median);
  fmt::print("scalar rules: {:.3g} steps/s, ours are {:.1f} times as fast\n{}\n", rates[1].median, scalar_ratio,
             json["recipe"].dump());
  return 0;
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  return millrace::bench::run_benchmark(argc, argv, "bench_step", millrace::bench::body);
}
