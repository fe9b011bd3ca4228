// The options that all benchmarks have, and the machine's part of the recipe.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/environment_kernels.hpp"

namespace millrace::bench {

struct Options {
  std::string env_id = "CartPole-v1";
  int num_envs = 2048;
  std::string device = "cpu";
  int threads = 1;
  Isa isa = Isa::kBaseline;
  int repeats = 9;
  bool json = false;
  std::vector<int> hidden = {64, 64};
  std::string config;                  ///< bench_train, bench_rollout: an experiment file
  std::vector<std::string> overrides;  ///< "key.path=value", as rl_run train takes them
};

/// nullopt if only the help was wanted. A mistake is a UserError.
[[nodiscard]] std::optional<Options> parse_options(int argc, char** argv, const char* name);

/// Runs `body`, and maps exceptions to exit codes as rl_run does.
int run_benchmark(int argc, char** argv, const char* name, int (*body)(const Options&));

[[nodiscard]] std::string cpu_model();
[[nodiscard]] std::string compiler();

}  // namespace millrace::bench
