// The program gnuplot as a function from a script to what it prints: no shell, no files, bounded in time.
//
// Thread safety: each call has a process of its own; any number of threads.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace millrace {

struct GnuplotResult {
  std::string output;
  std::optional<std::string> problem;  ///< one line for a person
};

/// Runs the program with `script` on its standard input, without the user's start-up files. It is stopped
/// after ten seconds. Throws nothing but std::bad_alloc.
[[nodiscard]] GnuplotResult run_gnuplot(std::string_view script);

/// A string of gnuplot's language that shows `text` as it is where the terminal says `noenhanced`: in double
/// quotes, special characters by their numbers, control characters as spaces, bytes that are not UTF-8 as
/// question marks.
[[nodiscard]] std::string gnuplot_string(std::string_view text);

}  // namespace millrace
