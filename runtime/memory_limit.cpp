// How much memory this process may still take; see memory_limit.hpp.
#include "runtime/memory_limit.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

namespace millrace {
namespace {

/// A file that holds one number; nothing if it is missing or says "max".
std::optional<std::size_t> number_in(const char* path) {
  std::ifstream file(path);
  std::size_t value = 0;
  if (file >> value) return value;
  return std::nullopt;
}

}  // namespace

std::size_t available_memory_bytes() {
  std::size_t available = std::numeric_limits<std::size_t>::max() / 2;
  std::ifstream info("/proc/meminfo");
  for (std::string key; info >> key;) {
    std::size_t kib = 0;
    if (key == "MemAvailable:" && info >> kib) {
      available = kib * 1024;
      break;
    }
    info.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  const auto limit = number_in("/sys/fs/cgroup/memory.max");
  const auto used = number_in("/sys/fs/cgroup/memory.current");
  if (limit && used) available = std::min(available, *limit > *used ? *limit - *used : std::size_t{0});
  return available;
}

}  // namespace millrace
