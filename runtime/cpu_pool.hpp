// The CPU device's worker threads. Each looks through the streams that may use it, highest priority first,
// claims a block, runs it, and looks again; with nothing to do it spins for some microseconds and then parks.
//
// No wake-up is lost. A worker marks itself parked and only then looks once more; a publisher makes blocks
// visible and only then looks for parked workers. A publisher counts workers that are scanning as awake for
// its blocks; as several publishers may count the same one, a worker that turns from scanning to running
// wakes others for what it leaves behind. So a block never waits while a worker of its partition sleeps.
//
// Thread safety: every function from any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace millrace {

class CpuStreamState;

/// Tells the core that this is a spin loop.
inline void spin_pause() noexcept {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

class CpuPool {
 public:
  /// Starts `num_workers` >= 1 threads; worker i is pinned to cpus[i] unless `cpus` is empty. A worker with
  /// nothing to do spins for `worker_spin` before it sleeps, a host thread for `host_spin`. Throws RunError
  /// if the system refuses a thread.
  CpuPool(int num_workers, std::vector<int> cpus, std::chrono::microseconds worker_spin,
          std::chrono::microseconds host_spin);
  CpuPool(const CpuPool&) = delete;
  CpuPool& operator=(const CpuPool&) = delete;
  /// REQUIRES: no stream is left, and this is not one of the pool's own threads.
  ~CpuPool();

  [[nodiscard]] int num_workers() const noexcept { return static_cast<int>(workers_.size()); }
  [[nodiscard]] std::chrono::microseconds host_spin() const noexcept { return host_spin_; }
  [[nodiscard]] bool is_own_worker() const noexcept;

  void add_stream(std::shared_ptr<CpuStreamState> stream);
  void remove_stream(const CpuStreamState& stream);

  /// Wakes workers for `blocks` unclaimed blocks of `stream`, after they have become visible.
  void wake_for(const CpuStreamState& stream, int blocks) noexcept {
    if (num_parked_.load() > 0) wake_parked_for(stream, blocks);
  }

  /// Between the two, a thread that is neither a worker of this pool nor in a call on one of its streams
  /// works on one of them; the destructor waits for it.
  void enter() noexcept { visitors_.fetch_add(1, std::memory_order_relaxed); }
  void leave() noexcept { visitors_.fetch_sub(1, std::memory_order_release); }

 private:
  enum class Activity : int { kScanning, kRunning, kParked };

  /// Streams [begin, end) of a worker's list have one priority; the search starts behind the last one served,
  /// so that equals take turns.
  struct PriorityGroup {
    std::size_t begin = 0;
    std::size_t end = 0;
    std::size_t next = 0;
  };

  struct alignas(64) Worker {
    std::atomic<Activity> activity{Activity::kScanning};
    alignas(64) std::mutex mutex;
    std::condition_variable woken;
    // The rest belongs to the worker's own thread.
    std::uint64_t version = 0;
    std::vector<std::shared_ptr<CpuStreamState>> streams;
    std::vector<PriorityGroup> groups;
    std::thread thread;
  };

  void start_threads(const std::vector<int>& cpus);
  void stop_threads() noexcept;
  void run_worker(int index, int cpu) noexcept;
  [[nodiscard]] bool run_one_block(Worker& worker, int index) noexcept;
  void refresh_streams(Worker& worker, int index);
  void park(Worker& worker) noexcept;
  [[nodiscard]] bool has_work(const Worker& worker) const noexcept;
  void wake_parked_for(const CpuStreamState& stream, int blocks) noexcept;
  void wake_for_unclaimed(const Worker& worker) noexcept;
  bool unpark(Worker& worker) noexcept;

  std::vector<std::unique_ptr<Worker>> workers_;
  const std::chrono::microseconds worker_spin_;
  const std::chrono::microseconds host_spin_;
  alignas(64) std::atomic<int> num_parked_{0};
  alignas(64) std::atomic<std::uint64_t> version_{1};  // counts changes of streams_
  std::atomic<bool> stopping_{false};
  alignas(64) std::atomic<int> visitors_{0};
  std::mutex streams_mutex_;
  std::vector<std::shared_ptr<CpuStreamState>> streams_;  // descending priority, then age
};

}  // namespace millrace
