#include "runtime/config_nearest.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "runtime/config_schema.hpp"

namespace millrace::configuration {
namespace {

constexpr std::size_t kLongest = 64;

char folded(char c) {
  if (c >= 'A' && c <= 'Z') return static_cast<char>(c - 'A' + 'a');
  return c == '-' ? '_' : c;
}

}  // namespace

std::size_t edit_distance(std::string_view from, std::string_view to) {
  from = from.substr(0, kLongest);
  to = to.substr(0, kLongest);
  using Row = std::array<std::size_t, kLongest + 1>;
  Row before_last{};
  Row last{};
  Row row{};
  for (std::size_t j = 0; j <= to.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= from.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= to.size(); ++j) {
      const bool same = folded(from[i - 1]) == folded(to[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && folded(from[i - 1]) == folded(to[j - 2]) &&
                           folded(from[i - 2]) == folded(to[j - 1]);
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    before_last = std::exchange(last, row);
  }
  return last[to.size()];
}

Nearest nearest_name(std::string_view wanted, const std::vector<std::string_view>& names) {
  Nearest best;
  std::size_t best_distance = 0;
  for (const std::string_view name : names) {
    const std::size_t elsewhere = section_of(name) == section_of(wanted) ? 0 : 1;
    const std::size_t distance =
        std::min(edit_distance(wanted, name), edit_distance(leaf_of(wanted), leaf_of(name)) + elsewhere);
    if (!best.name.empty() && distance >= best_distance) continue;
    best.name = name;
    best_distance = distance;
  }
  best.near = !best.name.empty() && best_distance <= std::max<std::size_t>(2, leaf_of(wanted).size() / 3) &&
              best_distance < leaf_of(wanted).size();
  return best;
}

}  // namespace millrace::configuration
