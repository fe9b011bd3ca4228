// The workers' loop, and how they fall asleep and wake.
#include "runtime/cpu_pool.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <system_error>

#include "runtime/cpu_stream_state.hpp"
#include "runtime/cpu_topology.hpp"
#include "runtime/error.hpp"

namespace millrace {

namespace {

thread_local const CpuPool* pool_of_this_worker = nullptr;

/// While one lives, threads that are started inherit a mask which blocks all signals: SIGINT and its like
/// belong to the application's own threads.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace

CpuPool::CpuPool(int num_workers, std::vector<int> cpus, std::chrono::microseconds worker_spin,
                 std::chrono::microseconds host_spin)
    : worker_spin_(worker_spin), host_spin_(host_spin) {
  for (int i = 0; i < num_workers; ++i) workers_.push_back(std::make_unique<Worker>());
  try {
    start_threads(cpus);
  } catch (const std::system_error& error) {
    stop_threads();
    throw RunError(fmt::format("could not start {} worker threads: {}", num_workers, error.what()));
  }
}

CpuPool::~CpuPool() {
  while (visitors_.load(std::memory_order_acquire) != 0) std::this_thread::yield();
  stop_threads();
}

void CpuPool::start_threads(const std::vector<int>& cpus) {
  const SignalsBlocked blocked;
  for (int i = 0; i < num_workers(); ++i) {
    const int cpu = cpus.empty() ? -1 : cpus[static_cast<std::size_t>(i)];
    workers_[static_cast<std::size_t>(i)]->thread = std::thread([this, i, cpu] { run_worker(i, cpu); });
  }
}

void CpuPool::stop_threads() noexcept {
  stopping_.store(true);
  for (const auto& worker : workers_) unpark(*worker);
  for (const auto& worker : workers_) {
    if (worker->thread.joinable()) worker->thread.join();
  }
}

bool CpuPool::is_own_worker() const noexcept { return pool_of_this_worker == this; }

void CpuPool::add_stream(std::shared_ptr<CpuStreamState> stream) {
  const std::lock_guard lock(streams_mutex_);
  const auto behind_equals = std::find_if(streams_.begin(), streams_.end(), [&](const auto& other) {
    return other->priority() < stream->priority();
  });
  streams_.insert(behind_equals, std::move(stream));
  version_.fetch_add(1);
}

void CpuPool::remove_stream(const CpuStreamState& stream) {
  const std::lock_guard lock(streams_mutex_);
  std::erase_if(streams_, [&](const auto& other) { return other.get() == &stream; });
  version_.fetch_add(1);
}

void CpuPool::run_worker(int index, int cpu) noexcept {
  pool_of_this_worker = this;
  pthread_setname_np(pthread_self(), fmt::format("millrace-{}", index).c_str());
  if (cpu >= 0) static_cast<void>(pin_this_thread(cpu));  // a wish: an unpinned worker is only slower
  Worker& worker = *workers_[static_cast<std::size_t>(index)];
  constexpr int kScansPerClockRead = 16;
  int idle_scans = 0;
  std::chrono::steady_clock::time_point idle_since;
  while (!stopping_.load(std::memory_order_relaxed)) {
    if (run_one_block(worker, index)) {
      idle_scans = 0;
      continue;
    }
    spin_pause();
    if (++idle_scans % kScansPerClockRead != 0) continue;
    const auto now = std::chrono::steady_clock::now();
    if (idle_scans == kScansPerClockRead) idle_since = now;
    if (now - idle_since < worker_spin_) continue;
    park(worker);
    idle_scans = 0;
  }
}

bool CpuPool::run_one_block(Worker& worker, int index) noexcept {
  if (version_.load() != worker.version) refresh_streams(worker, index);
  for (PriorityGroup& group : worker.groups) {
    const std::size_t count = group.end - group.begin;
    for (std::size_t i = 0; i < count; ++i) {
      if (group.next == group.end) group.next = group.begin;
      CpuStreamState& stream = *worker.streams[group.next++];
      const int block = stream.claim();
      if (block < 0) continue;
      worker.activity.store(Activity::kRunning);
      if (num_parked_.load() > 0) wake_for_unclaimed(worker);
      stream.run_block(block, index);
      worker.activity.store(Activity::kScanning, std::memory_order_release);
      stream.finish_block();
      return true;
    }
  }
  return false;
}

void CpuPool::refresh_streams(Worker& worker, int index) {
  std::vector<std::shared_ptr<CpuStreamState>> streams;
  {
    const std::lock_guard lock(streams_mutex_);
    worker.version = version_.load(std::memory_order_relaxed);
    std::copy_if(streams_.begin(), streams_.end(), std::back_inserter(streams), [index](const auto& stream) {
      const std::vector<int>& workers = stream->workers();
      return std::find(workers.begin(), workers.end(), index) != workers.end();
    });
  }
  worker.streams.swap(streams);
  worker.groups.clear();
  for (std::size_t i = 0; i < worker.streams.size(); ++i) {
    if (i == 0 || worker.streams[i]->priority() != worker.streams[i - 1]->priority()) {
      worker.groups.push_back({.begin = i, .end = i, .next = i});
    }
    worker.groups.back().end = i + 1;
  }
}

void CpuPool::park(Worker& worker) noexcept {
  num_parked_.fetch_add(1);
  worker.activity.store(Activity::kParked);
  if (has_work(worker)) {
    Activity expected = Activity::kParked;
    if (worker.activity.compare_exchange_strong(expected, Activity::kScanning)) num_parked_.fetch_sub(1);
    return;
  }
  std::unique_lock lock(worker.mutex);
  worker.woken.wait(lock, [&] { return worker.activity.load() != Activity::kParked; });
}

bool CpuPool::has_work(const Worker& worker) const noexcept {
  return stopping_.load() || version_.load() != worker.version ||
         std::any_of(worker.streams.begin(), worker.streams.end(),
                     [](const auto& stream) { return stream->unclaimed() > 0; });
}

bool CpuPool::unpark(Worker& worker) noexcept {
  Activity expected = Activity::kParked;
  if (!worker.activity.compare_exchange_strong(expected, Activity::kScanning)) return false;
  num_parked_.fetch_sub(1);
  { const std::lock_guard lock(worker.mutex); }  // it has not yet looked, or it sleeps
  worker.woken.notify_one();
  return true;
}

void CpuPool::wake_parked_for(const CpuStreamState& stream, int blocks) noexcept {
  int wanted = blocks;
  for (const int index : stream.workers()) {
    if (workers_[static_cast<std::size_t>(index)]->activity.load() == Activity::kScanning) --wanted;
  }
  for (const int index : stream.workers()) {
    if (wanted <= 0) return;
    if (unpark(*workers_[static_cast<std::size_t>(index)])) --wanted;
  }
}

void CpuPool::wake_for_unclaimed(const Worker& worker) noexcept {
  if (version_.load() !=
      worker.version) {  // there may be blocks in a stream that this worker does not know yet
    for (const auto& other : workers_) unpark(*other);
    return;
  }
  for (const auto& stream : worker.streams) {
    const int blocks = stream->unclaimed();
    if (blocks > 0) wake_parked_for(*stream, blocks);
  }
}

}  // namespace millrace
