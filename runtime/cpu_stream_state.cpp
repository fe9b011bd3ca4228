// The life of an operation: enqueued, started, claimed block by block, finished, its waiters told.
//
// On memory order: a pair of threads that each write one atomic and then read the other's (finish against
// wait, publish against park) must not both miss the other; such accesses are sequentially consistent.
#include "runtime/cpu_stream_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <stdexcept>

#include "runtime/cpu_pool.hpp"

namespace millrace {

/// A host thread asleep. Lives on that thread's stack.
class HostWaiter {
 public:
  void sleep() {
    std::unique_lock lock(mutex_);
    told_.wait(lock, [this] { return done_; });
  }
  void tell() {
    const std::lock_guard lock(mutex_);  // held through notify: afterwards the waiter may be gone
    done_ = true;
    told_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable told_;
  bool done_ = false;
};

/// Streams whose wait has ended and whose front this thread now owns. A list rather than recursion: a chain
/// of waiting streams may be long. Each one's pool is held back from its end, as it may not be this thread's
/// own.
class ResumedStreams {
 public:
  void add(std::shared_ptr<CpuStreamState> stream) noexcept {
    stream->pool_.enter();
    stream->next_resumed_ = std::move(first_);
    first_ = std::move(stream);
  }
  void start_all() noexcept {
    while (first_) {
      const std::shared_ptr<CpuStreamState> stream = std::move(first_);
      CpuPool& pool = stream->pool_;
      first_ = std::move(stream->next_resumed_);
      stream->start_operations(*this);
      pool.leave();
    }
  }

 private:
  std::shared_ptr<CpuStreamState> first_;
};

void CpuStreamState::enqueue(CpuOp&& op) {
  bool was_idle = false;
  {
    const std::lock_guard lock(queue_.mutex());
    queue_.push(std::move(op));
    enqueued_.store(enqueued_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    was_idle = pending_.fetch_add(1, std::memory_order_acq_rel) == 0;
  }
  if (!was_idle) return;
  ResumedStreams resumed;
  start_operations(resumed);
  resumed.start_all();
}

void CpuStreamState::start_operations(ResumedStreams& resumed) noexcept {
  do {
    CpuOp& op = queue_.front();
    if (failed_.load(std::memory_order_relaxed)) continue;
    if (op.producer) {
      if (park_at(op)) return;  // from here another thread may own the front
    } else if (op.blocks > 0) {
      publish(op);
      return;
    }
  } while (finish_front(resumed));
}

bool CpuStreamState::park_at(CpuOp& op) noexcept {
  // Whoever ends the wait pops the operation, perhaps before add_waiter returns.
  const std::shared_ptr<CpuStreamState> producer = op.producer;
  return producer->add_waiter({.place = op.place, .stream = shared_from_this()});
}

void CpuStreamState::publish(CpuOp& op) noexcept {
  const int blocks = op.blocks;  // the launch may end, and its slot be used again, as soon as it is visible
  current_ = &op;
  current_blocks_ = blocks;
  unfinished_.store(blocks, std::memory_order_relaxed);
  remaining_.store(blocks);
  pool_.wake_for(*this, blocks);
}

int CpuStreamState::claim() noexcept {
  // Claimers that come too late may take the count below zero; the next publish sets it anew.
  if (remaining_.load() <= 0) return -1;
  const int remaining = remaining_.fetch_sub(1);
  return remaining > 0 ? current_blocks_ - remaining : -1;
}

void CpuStreamState::run_block(int block, int worker) noexcept {
  if (failed_.load(std::memory_order_relaxed)) return;
  try {
    current_->body(block, worker);
  } catch (...) {
    fail(std::current_exception());
  }
}

void CpuStreamState::finish_block() noexcept {
  if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  ResumedStreams resumed;
  if (finish_front(resumed)) start_operations(resumed);
  resumed.start_all();
}

bool CpuStreamState::finish_front(ResumedStreams& resumed) noexcept {
  queue_.pop();  // first, so that what the operation holds is gone when a waiter goes on
  const std::uint64_t place = completed_.load(std::memory_order_relaxed) + 1;
  completed_.store(place);
  if (first_waited_.load() <= place) release_waiters(place, resumed);
  return pending_.fetch_sub(1, std::memory_order_acq_rel) != 1;
}

bool CpuStreamState::add_waiter(Waiter&& waiter) {
  const std::lock_guard lock(waiters_mutex_);
  const std::uint64_t place = waiter.place;
  const std::uint64_t first = first_waited_.load(std::memory_order_relaxed);
  waiters_.push_back(std::move(waiter));
  first_waited_.store(std::min(first, place));
  if (!reached(place)) return true;
  waiters_.pop_back();  // the finishing thread may have missed it
  first_waited_.store(first);
  return false;
}

void CpuStreamState::release_waiters(std::uint64_t place, ResumedStreams& resumed) noexcept {
  const std::lock_guard lock(waiters_mutex_);
  std::uint64_t first = kNoPlace;
  for (std::size_t i = 0; i < waiters_.size();) {
    Waiter& waiter = waiters_[i];
    if (waiter.place > place) {
      first = std::min(first, waiter.place);
      ++i;
      continue;
    }
    if (waiter.host != nullptr) waiter.host->tell();
    if (waiter.stream) resumed.add(std::move(waiter.stream));
    if (i + 1 != waiters_.size()) waiter = std::move(waiters_.back());
    waiters_.pop_back();
  }
  first_waited_.store(first);
}

void CpuStreamState::wait_on_host(std::uint64_t place) {
  if (reached(place)) return;
  if (pool_.is_own_worker()) {
    throw std::logic_error(
        fmt::format("stream '{}' was asked to synchronize by work that runs on its own device, which would "
                    "wait for itself",
                    name_));
  }
  const auto deadline = std::chrono::steady_clock::now() + pool_.host_spin();
  do {
    for (int i = 0; i < 16; ++i) {
      if (reached(place)) return;
      spin_pause();
    }
  } while (std::chrono::steady_clock::now() < deadline);
  HostWaiter waiter;
  if (add_waiter({.place = place, .stream = nullptr, .host = &waiter})) waiter.sleep();
}

void CpuStreamState::fail(std::exception_ptr exception) noexcept {
  const std::lock_guard lock(failure_mutex_);
  if (failure_) return;
  failure_ = std::move(exception);
  failure_place_ = completed_.load(std::memory_order_relaxed) + 1;
  failure_name_ = current_->name;
  failed_.store(true, std::memory_order_relaxed);  // finish_block orders it before the next operation
}

bool CpuStreamState::has_failure_before(std::uint64_t place) const {
  const std::lock_guard lock(failure_mutex_);
  return failure_ && failure_place_ <= place;
}

std::exception_ptr CpuStreamState::take_failure(std::uint64_t place) {
  const std::lock_guard lock(failure_mutex_);
  if (!failure_ || failure_place_ > place) return nullptr;
  failed_.store(false, std::memory_order_relaxed);
  return std::exchange(failure_, nullptr);
}

std::string CpuStreamState::failed_operation() const {
  const std::lock_guard lock(failure_mutex_);
  return failure_name_;
}

}  // namespace millrace
