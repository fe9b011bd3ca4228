// The operations of one CPU stream that are enqueued and not yet done: a list of fixed segments that are used
// again and again, so that enqueueing allocates only while the backlog is larger than it ever was.
//
// Invariants: operations leave in the order in which they came. A slot stays where it is until it is popped.
// Thread safety: push() from any thread under the caller's lock on mutex(); front() and pop() by the one
// thread that owns the stream's front at the time. The owner calls front() only after it has synchronised
// with the push of that operation (the stream's count of pending operations does that).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "runtime/inline_function.hpp"

namespace millrace {

class CpuStreamState;

/// The body of a launch: called once for each block, with the block's index and that of the worker which runs
/// it.
using BlockFunction = InlineFunction<void(int block, int worker), 96>;

/// Either a launch (`producer` null) or a wait until stream `producer` has done its first `place` operations.
/// Aligned so that a worker fetches one line for a launch with a small body.
struct alignas(64) CpuOp {
  const char* name = "";
  int blocks = 0;
  BlockFunction body;
  std::shared_ptr<CpuStreamState> producer;
  std::uint64_t place = 0;
};

class CpuOpQueue {
 public:
  CpuOpQueue() : first_(std::make_unique<Segment>()), last_(first_.get()) {}
  CpuOpQueue(const CpuOpQueue&) = delete;
  CpuOpQueue& operator=(const CpuOpQueue&) = delete;
  ~CpuOpQueue() {  // link by link: a long list must not recurse
    while (first_) first_ = std::move(first_->next);
    while (spare_) spare_ = std::move(spare_->next);
  }

  [[nodiscard]] std::mutex& mutex() noexcept { return mutex_; }

  /// REQUIRES: mutex() is held. Throws std::bad_alloc, and then the queue is as it was.
  void push(CpuOp&& op) {
    if (write_ == kSegmentOps) {
      last_->next = take_segment();
      last_ = last_->next.get();
      write_ = 0;
    }
    last_->ops[write_++] = std::move(op);
  }

  /// REQUIRES: an operation is pending; mutex() is not held.
  [[nodiscard]] CpuOp& front() noexcept {
    if (read_ == kSegmentOps) {
      std::unique_ptr<Segment> done = std::move(first_);
      first_ = std::move(done->next);
      read_ = 0;
      const std::lock_guard lock(mutex_);
      done->next = std::move(spare_);
      spare_ = std::move(done);
    }
    return first_->ops[read_];
  }

  /// Destroys what the front operation holds. REQUIRES: front() was called.
  void pop() noexcept {
    CpuOp& op = first_->ops[read_++];
    op.body.reset();
    op.producer.reset();
  }

 private:
  static constexpr std::size_t kSegmentOps = 64;
  struct Segment {
    std::array<CpuOp, kSegmentOps> ops;
    std::unique_ptr<Segment> next;
  };

  std::unique_ptr<Segment> take_segment() {
    if (!spare_) return std::make_unique<Segment>();
    std::unique_ptr<Segment> segment = std::move(spare_);
    spare_ = std::move(segment->next);
    return segment;
  }

  std::unique_ptr<Segment> first_;  // the owner of the front
  std::size_t read_ = 0;
  alignas(64) std::mutex mutex_;  // guards the rest
  Segment* last_;
  std::size_t write_ = 0;
  std::unique_ptr<Segment> spare_;
};

}  // namespace millrace
