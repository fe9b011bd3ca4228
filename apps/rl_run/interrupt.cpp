// Signals and exit codes of runs; see interrupt.hpp.
#include "apps/rl_run/interrupt.hpp"

#include <fmt/format.h>
#include <signal.h>

namespace millrace {
namespace {

std::atomic<bool> g_interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may touch lock-free atomics only");

void on_signal(int) { g_interrupted.store(true, std::memory_order_relaxed); }

}  // namespace

const std::atomic<bool>& catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);  // the second one takes the default action
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  return g_interrupted;
}

int exit_code_of(const RunSummary& summary) {
  if (summary.ending != Ending::kInterrupted) return kExitDone;
  fmt::print(stderr, "Interrupted after {} steps; `rl_run resume {}` goes on from {}.\n", summary.steps,
             summary.run_dir, summary.checkpoint);
  return kExitInterrupted;
}

}  // namespace millrace
