// rl_run resume: goes on with a run in its own folder.
#include <fmt/format.h>

#include "apps/rl_run/commands.hpp"
#include "apps/rl_run/interrupt.hpp"
#include "runtime/run.hpp"
#include "runtime/trainer.hpp"

namespace millrace {

int run_resume(const ResumeArguments& arguments) {
  RunOptions options;
  options.quiet = arguments.quiet;
  options.picture = !arguments.json;
  options.process_age_s = process_age_seconds();
  const RunSummary summary = resume(arguments.path, arguments.overrides, options, catch_interrupts());
  if (arguments.json) {
    fmt::print("{}\n", to_json(summary));
  } else {
    print_summary(summary);
  }
  return exit_code_of(summary);
}

}  // namespace millrace
