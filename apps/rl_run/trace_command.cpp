// rl_run trace: one instance, step by step.
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <system_error>

#include "apps/rl_run/commands.hpp"
#include "apps/rl_run/interrupt.hpp"
#include "runtime/error.hpp"
#include "runtime/registry.hpp"
#include "runtime/trace.hpp"

namespace millrace {

int run_trace(const TraceArguments& arguments) {
  const EnvironmentDescription& environment = find_environment(arguments.env_id);
  if (arguments.actions.has_value() == arguments.transitions.has_value()) {
    throw UserError("trace: give either --actions or --transitions.");
  }
  if (arguments.transitions && arguments.state) {
    throw UserError("trace: --state goes with --actions; --transitions has a state in every line.");
  }
  Tracer tracer(environment, {arguments.params, arguments.state, arguments.seed, arguments.instance});
  const auto print = [](std::string_view line) {
    if (std::fwrite(line.data(), 1, line.size(), stdout) != line.size() || std::fputc('\n', stdout) == EOF) {
      throw std::system_error(errno, std::generic_category(), "standard output cannot be written");
    }
  };
  if (arguments.actions) {
    try {
      tracer.episode(*arguments.actions, print);
    } catch (const UserError&) {
      std::fflush(stdout);
      throw;
    }
  } else if (*arguments.transitions == "-") {
    tracer.transitions(std::cin, "standard input", print);
  } else {
    std::ifstream file(*arguments.transitions, std::ios::binary);
    if (!file) throw UserError(fmt::format("--transitions: {} cannot be read.", *arguments.transitions));
    tracer.transitions(file, *arguments.transitions, print);
  }
  if (std::fflush(stdout) != 0) {
    throw std::system_error(errno, std::generic_category(), "standard output cannot be written");
  }
  return kExitDone;
}

}  // namespace millrace
