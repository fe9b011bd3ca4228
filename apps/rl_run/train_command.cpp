// rl_run train: one seed, or several one after another.
#include <fmt/format.h>

#include <csignal>
#include <vector>

#include "apps/rl_run/commands.hpp"
#include "apps/rl_run/interrupt.hpp"
#include "runtime/config_reader.hpp"
#include "runtime/error.hpp"
#include "runtime/registry.hpp"
#include "runtime/run.hpp"
#include "runtime/trainer.hpp"

namespace millrace {

void print_summary(const RunSummary& s) {
  fmt::print("{} after {} steps ({} updates) in {:.2f} s, {:.3g} steps/s: greedy return {:.1f} +- {:.1f} over {} episodes\n",
             s.env_id, s.steps, s.updates, s.wall_s, s.steps_per_s, s.greedy_return_mean, s.greedy_return_std,
             s.greedy_episodes);
  if (s.first_step_at_threshold) {
    fmt::print("threshold reached at {} steps, {:.2f} s after the start\n", *s.first_step_at_threshold,
               s.seconds_at_threshold.value_or(0.0));
  }
  fmt::print("digest {} ({})\nrun folder {}\n", s.digest, s.isa, s.run_dir);
}

int run_train(const TrainArguments& arguments) {
  const double process_age_s = process_age_seconds();
  const ExperimentConfig config = load_config(arguments.config_path, arguments.overrides,
                                              [](const std::string& id) { return parameter_fields(id); });
  if (arguments.dry_run) {
    fmt::print("{}", describe_plan(config));
    return kExitDone;
  }
  const std::atomic<bool>& interrupt = catch_interrupts();
  const int seeds = arguments.num_seeds.value_or(1);
  std::vector<RunSummary> summaries;
  for (int i = 0; i < seeds; ++i) {
    ExperimentConfig one = config;
    one.seed = config.seed + static_cast<std::uint64_t>(i);
    RunOptions options;
    options.quiet = arguments.quiet;
    options.picture = !arguments.json && seeds == 1;
    options.process_age_s = i == 0 ? process_age_s : 0.0;
    if (arguments.run_dir) {
      options.run_dir = *arguments.run_dir;
      if (arguments.num_seeds) *options.run_dir /= fmt::format("seed_{}", one.seed);
    }
    summaries.push_back(train(one, options, interrupt));
    if (!arguments.json) print_summary(summaries.back());
    if (summaries.back().ending == Ending::kInterrupted) break;
  }
  if (arguments.json) fmt::print("{}\n", arguments.num_seeds ? to_json(summaries) : to_json(summaries.front()));
  if (!arguments.json && seeds > 1) fmt::print("{}\n", to_text(summaries));
  return exit_code_of(summaries.back());
}

}  // namespace millrace
