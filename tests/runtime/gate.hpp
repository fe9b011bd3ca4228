// A gate for tests of streams: it makes "this block is still running" a fact instead of a matter of time.
#pragma once

#include <atomic>
#include <thread>

namespace millrace {

/// Holds a worker inside a block until the test lets it go.
class Gate {
 public:
  void pass() {
    arrived_.fetch_add(1);
    while (!open_.load()) std::this_thread::yield();
  }
  void open() { open_.store(true); }
  void wait_for_arrivals(int count) const {
    while (arrived_.load() < count) std::this_thread::yield();
  }

 private:
  std::atomic<int> arrived_{0};
  std::atomic<bool> open_{false};
};

}  // namespace millrace
