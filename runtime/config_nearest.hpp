// The known name that somebody probably meant.
//
// Thread safety: pure functions.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace millrace::configuration {

/// How many insertions, deletions, substitutions and swaps of neighbours lead from one name to the other
/// (optimal string alignment), without regard to case and with `-` equal to `_`. Only the first 64 bytes
/// count.
std::size_t edit_distance(std::string_view from, std::string_view to);

/// The name nearest to `wanted`, and whether it is near enough to be a slip of the fingers. Names are dotted
/// paths; the right last part in a wrong section is one step away.
struct Nearest {
  std::string_view name;
  bool near = false;
};
Nearest nearest_name(std::string_view wanted, const std::vector<std::string_view>& names);

}  // namespace millrace::configuration
