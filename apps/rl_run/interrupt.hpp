// Ctrl-C and SIGTERM as a flag that a run looks at, and how a run's ending becomes an exit code.
#pragma once

#include <atomic>

#include "runtime/run.hpp"

namespace millrace {

inline constexpr int kExitDone = 0;
inline constexpr int kExitBug = 1;
inline constexpr int kExitMistake = 2;
inline constexpr int kExitInterrupted = 3;
inline constexpr int kExitFailed = 4;

/// From now on SIGINT and SIGTERM set the flag; a second one ends the process at once.
[[nodiscard]] const std::atomic<bool>& catch_interrupts();

/// 3, with a line on standard error that names the checkpoint, if it was interrupted; else 0.
[[nodiscard]] int exit_code_of(const RunSummary& summary);

void print_summary(const RunSummary& summary);

}  // namespace millrace
