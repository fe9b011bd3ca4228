// The commands of rl_run and their parsed arguments. Each returns an exit code, or throws UserError or RunError.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace millrace {

struct TrainArguments {
  std::string config_path;
  std::vector<std::string> overrides;  ///< key.path=value
  bool dry_run = false, json = false, quiet = false;
  std::optional<std::string> run_dir;
  std::optional<int> num_seeds;  ///< seed, seed + 1, … one run each
};
struct EvalArguments {
  std::string path;
  std::optional<int> episodes;
  std::optional<std::uint64_t> seed;
  bool json = false;
};
struct ResumeArguments {
  std::string path;
  std::vector<std::string> overrides;
  bool json = false, quiet = false;
};
struct PlotArguments {
  std::vector<std::string> paths;
  std::optional<std::string> output;  ///< an SVG file
};
struct EnvsArguments {
  std::optional<std::string> id;
  bool json = false;
};
struct TraceArguments {
  std::string env_id;
  std::optional<std::string> actions;
  std::optional<std::string> state;
  std::optional<std::string> params;
  std::optional<std::string> transitions;  ///< a file, or - for standard input
  std::uint64_t seed = 1;
  std::uint32_t instance = 0;
};

int run_train(const TrainArguments& arguments);
int run_eval(const EvalArguments& arguments);
int run_resume(const ResumeArguments& arguments);
int run_plot(const PlotArguments& arguments);
int run_envs(const EnvsArguments& arguments);
int run_trace(const TraceArguments& arguments);

/// Parses and runs one command line (without the program's name). Throws UserError for a mistake in it.
int run_command_line(const std::vector<std::string>& words);

}  // namespace millrace
