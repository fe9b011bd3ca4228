// The errors that cross a function's border, by who has to act on them. `rl_run` maps each to its exit code.
//
// Thread safety: plain values.
#pragma once

#include <stdexcept>
#include <string>

namespace millrace {

/// A person's mistake: configuration, command line, file, size. The message is one sentence that says what is
/// wrong, where (file, line, key), and what is allowed. Exit code 2.
class UserError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A fault of the surroundings in the middle of a run: device lost, disk full. Exit code 4.
class RunError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace millrace
