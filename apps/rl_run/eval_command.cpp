// rl_run eval: greedy episodes of a checkpoint's policy.
#include <fmt/format.h>

#include "apps/rl_run/commands.hpp"
#include "apps/rl_run/interrupt.hpp"
#include "runtime/run.hpp"

namespace millrace {

int run_eval(const EvalArguments& arguments) {
  const EvaluationSummary summary = evaluate_checkpoint(arguments.path, arguments.episodes, arguments.seed);
  if (arguments.json) {
    fmt::print("{}\n", to_json(summary));
  } else {
    fmt::print("{} after {} steps: greedy return {:.2f} +- {:.2f} over {} episodes ({})\n", summary.env_id,
               summary.steps, summary.result.return_mean, summary.result.return_std, summary.result.episodes,
               summary.checkpoint);
  }
  return kExitDone;
}

}  // namespace millrace
