// Which CPUs this process may use, and how many of them at a time: the affinity mask and the control group's
// quota.
//
// Thread safety: free functions that read the system; safe from any thread.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

namespace millrace {

/// CPU numbers of the calling thread's affinity mask, at least one. First one CPU of each physical core, then
/// their hyper-threads, each part in ascending order: the first n are the best n to use.
[[nodiscard]] std::vector<int> allowed_cpus();

/// CPU time the control groups of this process allow, in CPUs (2.5: two and a half), the tightest along the
/// path to the root, or nothing if there is no limit. Reads versions 1 and 2. `root` is "/" except in tests.
[[nodiscard]] std::optional<double> cgroup_cpu_limit(const std::filesystem::path& root = "/");

/// Workers that run at full speed: the allowed CPUs, and not more than the whole CPUs of the quota; at least
/// one.
[[nodiscard]] int usable_cpus();

/// Lets the calling thread run on `cpu` only. Returns whether the system agreed.
[[nodiscard]] bool pin_this_thread(int cpu) noexcept;

}  // namespace millrace
