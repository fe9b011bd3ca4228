// rl_run: from exceptions to exit codes. 0 done; 2 a person's mistake; 3 interrupted, checkpoint written; 4 a failed run;
// 1 a bug in Millrace.
#include <fmt/format.h>
#include <signal.h>

#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "apps/rl_run/commands.hpp"
#include "apps/rl_run/interrupt.hpp"
#include "runtime/error.hpp"

int main(int argc, char** argv) {
  using namespace millrace;
  // A reader that goes away (`rl_run trace … | head`) is an error of the write, not the end of the process.
  signal(SIGPIPE, SIG_IGN);
  // A file-size limit is an error of the write too: it ends in exit code 4 with the last good checkpoint.
  signal(SIGXFSZ, SIG_IGN);
  try {
    return run_command_line(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const UserError& error) {
    fmt::print(stderr, "rl_run: {}\n", error.what());
    return kExitMistake;
  } catch (const RunError& error) {
    fmt::print(stderr, "rl_run: {}\n", error.what());
    return kExitFailed;
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "rl_run: there is not enough memory; fewer instances or a smaller network need less.\n");
    return kExitFailed;
  } catch (const std::system_error& error) {
    // fmt and the standard library report a standard output that cannot be written in this way.
    fmt::print(stderr, "rl_run: {}.\n", error.what());
    return kExitFailed;
  } catch (const std::exception& error) {
    fmt::print(stderr, "rl_run: a bug in Millrace: {}\n", error.what());
    return kExitBug;
  }
}
