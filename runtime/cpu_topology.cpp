// Reads sched_getaffinity, /proc/self/cgroup, the control group files and sysfs.
#include "runtime/cpu_topology.hpp"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>

namespace millrace {

namespace {

namespace fs = std::filesystem;

constexpr int kMaxCpus = 1 << 16;

struct CpuSetDeleter {
  void operator()(cpu_set_t* set) const noexcept { CPU_FREE(set); }
};
using CpuSet = std::unique_ptr<cpu_set_t, CpuSetDeleter>;

/// The kernel refuses a set smaller than its own, whose size is not published: double until it fits.
std::vector<int> affinity_cpus() {
  std::vector<int> cpus;
  for (int capacity = 1024; capacity <= kMaxCpus; capacity *= 2) {
    const CpuSet set(CPU_ALLOC(capacity));
    const std::size_t bytes = CPU_ALLOC_SIZE(capacity);
    if (!set) break;
    CPU_ZERO_S(bytes, set.get());
    if (sched_getaffinity(0, bytes, set.get()) == 0) {
      for (int cpu = 0; cpu < capacity; ++cpu) {
        if (CPU_ISSET_S(static_cast<std::size_t>(cpu), bytes, set.get())) cpus.push_back(cpu);
      }
      break;
    }
    if (errno != EINVAL) break;
  }
  return cpus;
}

/// Whether `cpu` is the lowest-numbered hyper-thread of its core. True where the system does not say.
bool is_first_of_core(int cpu) {
  std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list");
  int first = cpu;
  return !(file >> first) || first == cpu;
}

std::optional<double> read_number(std::string_view text) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end == text.data()) return std::nullopt;
  return value;
}

std::optional<double> quota_over_period(std::string_view quota, std::string_view period) {
  const std::optional<double> quota_us = read_number(quota);  // "max" (v2) and -1 (v1) mean no limit
  const std::optional<double> period_us = read_number(period);
  if (!quota_us || !period_us || *quota_us <= 0.0 || *period_us <= 0.0) return std::nullopt;
  return *quota_us / *period_us;
}

std::string first_word(const fs::path& file) {
  std::ifstream stream(file);
  std::string word;
  stream >> word;
  return word;
}

std::optional<double> limit_v2(const fs::path& directory) {
  std::ifstream stream(directory / "cpu.max");
  std::string quota;
  std::string period;
  stream >> quota >> period;
  return quota_over_period(quota, period);
}

std::optional<double> limit_v1(const fs::path& directory) {
  return quota_over_period(first_word(directory / "cpu.cfs_quota_us"),
                           first_word(directory / "cpu.cfs_period_us"));
}

/// The smallest limit of `mount`/`group` and of the groups above it. A container often sees its own group as
/// the mount's root while the path names the host's tree, so folders that do not exist are passed over.
template <class Reader>
std::optional<double> tightest(const fs::path& mount, std::string_view group, Reader reader) {
  std::optional<double> limit;
  fs::path relative = fs::path(group).relative_path();
  for (;;) {
    if (const std::optional<double> here = reader(mount / relative)) {
      limit = limit ? std::min(*limit, *here) : *here;
    }
    if (relative.empty()) return limit;
    relative = relative.parent_path();
  }
}

bool has_controller(std::string_view controllers, std::string_view wanted) {
  while (!controllers.empty()) {
    const std::size_t comma = controllers.find(',');
    if (controllers.substr(0, comma) == wanted) return true;
    if (comma == std::string_view::npos) break;
    controllers.remove_prefix(comma + 1);
  }
  return false;
}

}  // namespace

std::vector<int> allowed_cpus() {
  std::vector<int> cpus = affinity_cpus();
  if (cpus.empty()) {
    const int count = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    for (int cpu = 0; cpu < count; ++cpu) cpus.push_back(cpu);
  }
  std::stable_partition(cpus.begin(), cpus.end(), is_first_of_core);
  return cpus;
}

std::optional<double> cgroup_cpu_limit(const fs::path& root) {
  std::ifstream membership(root / "proc/self/cgroup");
  const fs::path mounts = root / "sys/fs/cgroup";
  std::optional<double> limit;
  for (std::string line; std::getline(membership, line);) {  // hierarchy:controllers:path
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first == std::string::npos ? first : first + 1);
    if (second == std::string::npos) continue;
    const std::string_view controllers = std::string_view(line).substr(first + 1, second - first - 1);
    const std::string_view group = std::string_view(line).substr(second + 1);
    std::optional<double> here;
    if (controllers.empty()) {
      here = tightest(mounts, group, limit_v2);
    } else if (has_controller(controllers, "cpu")) {
      here = tightest(mounts / "cpu", group, limit_v1);
      if (!here) here = tightest(mounts / "cpu,cpuacct", group, limit_v1);
    }
    if (here) limit = limit ? std::min(*limit, *here) : *here;
  }
  return limit;
}

int usable_cpus() {
  const int allowed = static_cast<int>(allowed_cpus().size());
  const std::optional<double> quota = cgroup_cpu_limit();
  if (!quota || *quota >= allowed) return allowed;
  return std::max(1, static_cast<int>(*quota));  // a spinning worker beyond the quota would get all throttled
}

bool pin_this_thread(int cpu) noexcept {
  if (cpu < 0) return false;
  const CpuSet set(CPU_ALLOC(cpu + 1));
  if (!set) return false;
  const std::size_t bytes = CPU_ALLOC_SIZE(cpu + 1);
  CPU_ZERO_S(bytes, set.get());
  CPU_SET_S(static_cast<std::size_t>(cpu), bytes, set.get());
  return pthread_setaffinity_np(pthread_self(), bytes, set.get()) == 0;
}

}  // namespace millrace
