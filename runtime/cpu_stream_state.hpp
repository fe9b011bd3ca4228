// What a CPU stream is behind its handle: the queue of operations, the launch in flight, who waits for it,
// and its failure.
//
// How it moves. `pending_` counts operations that are enqueued and not finished. Whoever raises it from zero
// owns the stream's front: it starts operations until one is a launch with blocks, which it publishes, or a
// wait that is not yet reached. Workers claim the published launch's blocks by counting `remaining_` down;
// the worker that finishes the last block (`unfinished_`) owns the front next, and gives it up by lowering
// `pending_` to zero. So the front has at most one owner, and no lock lies between two launches.
//
// Places. A place is a number of finished operations. An event is a stream and a place; that makes recording
// free, and a wait exact even if the event is recorded again.
//
// Thread safety: as each function says. Objects are shared: handle, events, waiting operations and the
// workers' lists each keep one alive.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/cpu_op_queue.hpp"

namespace millrace {

class CpuPool;
class HostWaiter;
class ResumedStreams;

class CpuStreamState : public std::enable_shared_from_this<CpuStreamState> {
 public:
  /// `workers` are the worker indices that may run this stream's blocks. The pool must outlive all work.
  CpuStreamState(CpuPool& pool, std::string name, int priority, std::vector<int> workers)
      : pool_(pool), name_(std::move(name)), priority_(priority), workers_(std::move(workers)) {
    waiters_.reserve(8);  // how many there are at a time depends on timing; allocations should not
  }
  CpuStreamState(const CpuStreamState&) = delete;
  CpuStreamState& operator=(const CpuStreamState&) = delete;
  ~CpuStreamState() = default;

  // Constant after construction: any thread.
  [[nodiscard]] CpuPool& pool() const noexcept { return pool_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] int priority() const noexcept { return priority_; }
  [[nodiscard]] const std::vector<int>& workers() const noexcept { return workers_; }

  // Any thread.
  void enqueue(CpuOp&& op);
  /// The place behind everything enqueued so far.
  [[nodiscard]] std::uint64_t enqueued() const noexcept { return enqueued_.load(std::memory_order_acquire); }
  [[nodiscard]] bool reached(std::uint64_t place) const noexcept { return completed_.load() >= place; }
  /// Blocks the calling thread until reached(place). Throws std::logic_error on one of the pool's own
  /// workers.
  void wait_on_host(std::uint64_t place);
  /// Whether an operation before `place` failed and nobody has taken the exception yet.
  [[nodiscard]] bool has_failure_before(std::uint64_t place) const;
  /// Takes the failure if there is one before `place`, else returns null. From then on operations run again.
  [[nodiscard]] std::exception_ptr take_failure(std::uint64_t place);
  /// The name of the operation that failed. REQUIRES: has_failure_before(…).
  [[nodiscard]] std::string failed_operation() const;

  // Workers of the pool.
  /// Blocks of the published launch that nobody has claimed; not positive if none.
  [[nodiscard]] int unclaimed() const noexcept { return remaining_.load(); }
  /// Claims a block. Returns its index, or -1 if there is none.
  [[nodiscard]] int claim() noexcept;
  void run_block(int block, int worker) noexcept;
  /// Tells that a claimed block is done; starts what comes next if it was the last. The caller keeps this
  /// object alive.
  void finish_block() noexcept;

 private:
  friend class ResumedStreams;
  static constexpr std::uint64_t kNoPlace = std::numeric_limits<std::uint64_t>::max();

  /// Someone who is told when this stream reaches a place: a parked stream, or a host thread.
  struct Waiter {
    std::uint64_t place = 0;
    std::shared_ptr<CpuStreamState> stream;
    HostWaiter* host = nullptr;
  };

  // For the owner of the front.
  void start_operations(ResumedStreams& resumed) noexcept;
  void publish(CpuOp& op) noexcept;
  [[nodiscard]] bool park_at(CpuOp& op) noexcept;
  [[nodiscard]] bool finish_front(ResumedStreams& resumed) noexcept;

  /// Returns false, and leaves no trace, if the place is reached already.
  [[nodiscard]] bool add_waiter(Waiter&& waiter);
  void release_waiters(std::uint64_t place, ResumedStreams& resumed) noexcept;
  void fail(std::exception_ptr exception) noexcept;

  CpuPool& pool_;
  const std::string name_;
  const int priority_;
  const std::vector<int> workers_;
  std::shared_ptr<CpuStreamState> next_resumed_;  // of ResumedStreams

  // Lines apart by who writes them: claimers, finishers, the owner of the front, enqueuers. What a claimer
  // reads lies in the line that its claim fetched, as each line that another core has costs about 0.1 us.
  alignas(64) std::atomic<int> remaining_{0};
  int current_blocks_ = 0;
  CpuOp* current_ = nullptr;  // written before remaining_ is, so that a claim sees it
  std::atomic<bool> failed_{false};
  alignas(64) std::atomic<int> unfinished_{0};
  alignas(64) std::atomic<std::uint64_t> completed_{0};
  std::atomic<std::uint64_t> first_waited_{kNoPlace};  // the lowest place in waiters_
  alignas(64) std::atomic<std::uint64_t> pending_{0};
  std::atomic<std::uint64_t> enqueued_{0};  // written under the queue's lock
  CpuOpQueue queue_;

  std::mutex waiters_mutex_;
  std::vector<Waiter> waiters_;

  mutable std::mutex failure_mutex_;
  std::exception_ptr failure_;
  std::uint64_t failure_place_ = 0;  // the place behind the failed operation
  const char* failure_name_ = "";
};

}  // namespace millrace
