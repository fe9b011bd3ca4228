// The CPU device under 1, 2, 3 and 8 workers: order, exactly one run of each block, failures, no allocation
// in the steady state, and a clean end. Priorities and partitions: cpu_schedule_test.cpp; events:
// cpu_event_test.cpp.
#include "runtime/cpu_device.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <mutex>
#include <new>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "runtime/error.hpp"
#include "tests/runtime/gate.hpp"

namespace {
std::atomic<std::int64_t> num_heap_allocations{0};
}
// Counts what the whole process allocates; the steady state of a stream must not move it.
// Not inlined, as the compiler would warn of free() for what came from operator new.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  num_heap_allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* const data = std::malloc(bytes)) return data;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* data) noexcept { std::free(data); }
[[gnu::noinline]] void operator delete(void* data, std::size_t) noexcept { std::free(data); }

namespace millrace {
namespace {

class WorkerCounts : public testing::TestWithParam<int> {
 protected:
  CpuDevice device_{{.threads = GetParam()}};
};
INSTANTIATE_TEST_SUITE_P(CpuDevice, WorkerCounts, testing::Values(1, 2, 3, 8));

TEST_P(WorkerCounts, EveryBlockRunsExactlyOnce) {
  const auto stream = device_.make_cpu_stream();
  for (const int blocks : {0, 1, 2, 3, 31, 33, 64, 257, 2047}) {
    std::vector<std::atomic<int>> runs(static_cast<std::size_t>(blocks));
    std::atomic<int> bad_workers{0};
    stream->launch("count", blocks, [&](int block, int worker) {
      runs[static_cast<std::size_t>(block)].fetch_add(1);
      if (worker < 0 || worker >= device_.num_workers()) bad_workers.fetch_add(1);
    });
    stream->synchronize();
    EXPECT_TRUE(std::all_of(runs.begin(), runs.end(), [](const auto& count) { return count.load() == 1; }))
        << blocks;
    EXPECT_EQ(bad_workers.load(), 0);
  }
}

TEST_P(WorkerCounts, OperationsOfAStreamRunInOrder) {
  const auto stream = device_.make_cpu_stream();
  // Not atomic on purpose: the stream's order alone must make this free of races.
  std::vector<int> cells(33, 0);
  std::vector<int> violations(33, 0);
  constexpr int kLaunches = 3000;
  for (int launch = 0; launch < kLaunches; ++launch) {
    const int blocks = 1 + launch % 33;
    stream->launch("append", blocks, [&cells, &violations, launch, blocks](int block, int) {
      const int neighbour = blocks - 1 - block;  // written by another block, perhaps another worker, before
      if (cells[static_cast<std::size_t>(neighbour)] > launch * 2)
        ++violations[static_cast<std::size_t>(block)];
    });
    stream->launch("write", 33, [&cells, launch](int block, int) {
      auto& cell = cells[static_cast<std::size_t>(block)];
      cell = cell == launch * 2 ? launch * 2 + 2 : 1 << 30;
    });
  }
  stream->synchronize();
  EXPECT_EQ(cells, std::vector<int>(33, kLaunches * 2));
  EXPECT_EQ(violations, std::vector<int>(33, 0));
}

TEST_P(WorkerCounts, NoTwoBlocksShareAWorkerAtATime) {
  const auto first = device_.make_cpu_stream();
  const auto second = device_.make_cpu_stream({.priority = 1});
  std::vector<std::atomic<int>> inside(static_cast<std::size_t>(device_.num_workers()));
  std::atomic<int> clashes{0};
  const auto body = [&](int, int worker) {
    auto& mine = inside[static_cast<std::size_t>(worker)];
    if (mine.fetch_add(1) != 0) clashes.fetch_add(1);
    mine.fetch_sub(1);
  };
  for (int i = 0; i < 300; ++i) {
    first->launch("a", 7, body);
    second->launch("b", 5, body);
  }
  first->synchronize();
  second->synchronize();
  EXPECT_EQ(clashes.load(), 0);
}

TEST_P(WorkerCounts, ManyTinyLaunches) {
  const auto stream = device_.make_cpu_stream();
  std::int64_t sum = 0;  // not atomic: one block at a time
  constexpr std::int64_t kLaunches = 100'000;
  for (std::int64_t i = 0; i < kLaunches; ++i) stream->launch("add", 1, [&sum, i](int, int) { sum += i; });
  stream->synchronize();
  EXPECT_EQ(sum, kLaunches * (kLaunches - 1) / 2);
}

TEST_P(WorkerCounts, ChainOfTwoBlocksLosesNoWakeUp) {
  const auto stream = device_.make_cpu_stream();
  std::array<std::int64_t, 2> sums{};
  for (int i = 0; i < 20'000; ++i) {
    stream->launch("pair", 2, [&sums](int block, int) { ++sums[static_cast<std::size_t>(block)]; });
    if (i % 100 == 0) stream->synchronize();  // so that workers and host meet every state of idleness
  }
  stream->synchronize();
  EXPECT_EQ(sums[0], 20'000);
  EXPECT_EQ(sums[1], 20'000);
}

TEST_P(WorkerCounts, EventsOrderTwoStreamsBothWays) {
  const auto ping = device_.make_cpu_stream({.name = "ping"});
  const auto pong = device_.make_cpu_stream({.name = "pong", .priority = 3});
  const auto there = device_.make_event();
  const auto back = device_.make_event();
  std::vector<int> order;  // not atomic: the events must make it safe
  constexpr int kRounds = 2000;
  for (int i = 0; i < kRounds; ++i) {
    ping->wait(*back);
    ping->launch("ping", 1, [&order, i](int, int) { order.push_back(2 * i); });
    ping->record(*there);
    pong->wait(*there);
    pong->enqueue_host([&order, i] { order.push_back(2 * i + 1); });
    pong->record(*back);
  }
  back->synchronize();
  std::vector<int> expected(2 * kRounds);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(order, expected);
  EXPECT_TRUE(there->query());
  EXPECT_TRUE(pong->query());
}

TEST_P(WorkerCounts, SeveralHostThreadsEnqueueIntoOneStream) {
  const auto stream = device_.make_cpu_stream();
  constexpr int kThreads = 4;
  constexpr int kEach = 2000;
  std::array<int, kThreads> next{};  // not atomic: one block at a time
  int out_of_order = 0;
  std::vector<std::thread> hosts;
  for (int host = 0; host < kThreads; ++host) {
    hosts.emplace_back([&, host] {
      for (int i = 0; i < kEach; ++i) {
        stream->launch("step", 1, [&next, &out_of_order, host, i](int, int) {
          if (next[static_cast<std::size_t>(host)]++ != i) ++out_of_order;
        });
        if (i % 500 == 0) stream->synchronize();
      }
    });
  }
  for (std::thread& host : hosts) host.join();
  stream->synchronize();
  EXPECT_EQ(out_of_order, 0);
  EXPECT_EQ(std::accumulate(next.begin(), next.end(), 0), kThreads * kEach);
}

TEST_P(WorkerCounts, CopyAndFillMoveEveryByte) {
  const auto stream = device_.make_cpu_stream();
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{1}, std::size_t{1} << 20, (std::size_t{3} << 20) + 17}) {
    Buffer<unsigned char> there(device_, bytes);
    Buffer<unsigned char> back(device_, bytes + 1);
    std::vector<unsigned char> source(bytes);
    for (std::size_t i = 0; i < bytes; ++i) source[i] = static_cast<unsigned char>(i * 7 + (i >> 13));
    stream->fill(back.get(), 0x5A, bytes + 1);
    stream->copy(there.get(), source.data(), bytes);
    stream->copy(back.get(), there.get(), bytes);
    stream->synchronize();
    EXPECT_TRUE(std::equal(source.begin(), source.end(), back.get())) << bytes;
    EXPECT_EQ(back.view()[bytes], 0x5A);
  }
}

TEST_P(WorkerCounts, FailureSkipsTheRestAndIsThrownOnce) {
  const auto stream = device_.make_cpu_stream();
  for (int repeat = 0; repeat < 50; ++repeat) {
    std::atomic<int> later{0};
    stream->launch("fails", 5, [](int block, int) {
      if (block % 2 == 1) throw std::runtime_error("block failed");
    });
    stream->launch("later", 5, [&](int, int) { later.fetch_add(1); });
    stream->enqueue_host([&] { later.fetch_add(1); });
    EXPECT_THROW(stream->synchronize(), std::runtime_error);
    EXPECT_EQ(later.load(), 0);
    EXPECT_NO_THROW(stream->synchronize());
    stream->launch("good", 3, [&](int, int) { later.fetch_add(1); });
    stream->synchronize();
    EXPECT_EQ(later.load(), 3);
  }
}

TEST_P(WorkerCounts, DestroyingAStreamWaitsForItsWork) {
  std::atomic<int> done{0};
  {
    const auto stream = device_.make_cpu_stream();
    for (int i = 0; i < 500; ++i) stream->launch("work", 3, [&](int, int) { done.fetch_add(1); });
  }
  EXPECT_EQ(done.load(), 1500);
}

TEST_P(WorkerCounts, SteadyStateAllocatesNothing) {
  const auto stream = device_.make_cpu_stream();
  const auto other = device_.make_cpu_stream({.priority = 1});
  const auto event = device_.make_event();
  std::array<std::byte, 64> payload{};
  std::atomic<int> sum{0};
  std::atomic<int>* const target = &sum;
  const auto run = [&] {
    Gate gate;  // the backlog is the same in each round
    stream->launch("gate", 1, [&gate](int, int) { gate.pass(); });
    for (int i = 0; i < 1000; ++i) {
      stream->launch("add", 2, [payload, target](int, int) {
        target->fetch_add(1 + static_cast<int>(payload[0]), std::memory_order_relaxed);
      });
      stream->record(*event);
      other->wait(*event);
      other->enqueue_host([target] { target->fetch_add(1, std::memory_order_relaxed); });
    }
    gate.open();
    stream->synchronize();
    other->synchronize();
  };
  // A worker allocates its list of streams when it first looks for work, which with few CPUs may be late.
  std::atomic<int> met{0};
  const int num_workers = device_.num_workers();
  other->launch("meet", num_workers, [&met, num_workers](int, int) {
    met.fetch_add(1);
    while (met.load() < num_workers) std::this_thread::yield();
  });
  run();
  run();
  const std::int64_t before = num_heap_allocations.load();
  run();
  EXPECT_EQ(num_heap_allocations.load(), before);
  EXPECT_EQ(sum.load(), 9000);
}

TEST(CpuDevice, WhatALaunchHoldsIsGoneAfterSynchronize) {
  CpuDevice device({.threads = 2});
  const auto stream = device.make_cpu_stream();
  const auto held = std::make_shared<int>(1);
  for (int i = 0; i < 100; ++i) {
    stream->launch("holds", 2, [held](int, int) {});
    stream->synchronize();
    EXPECT_EQ(held.use_count(), 1);
  }
}

TEST(CpuDevice, StreamsOutliveTheirDevice) {
  auto device = std::make_unique<CpuDevice>(CpuDeviceOptions{.threads = 2});
  const auto event = device->make_event();
  auto stream = device->make_cpu_stream();
  Gate gate;
  int sum = 0;
  stream->launch("gate", 1, [&](int, int) { gate.pass(); });
  stream->enqueue_host([&] { sum = 5; });
  stream->record(*event);
  device.reset();
  gate.open();
  stream.reset();
  EXPECT_TRUE(event->query());
  EXPECT_NO_THROW(event->synchronize());
  EXPECT_EQ(sum, 5);
}

TEST(CpuDevice, StreamsComeAndGoWhileOthersWork) {
  CpuDevice device({.threads = 3});
  const auto steady = device.make_cpu_stream();
  std::atomic<bool> stop{false};
  std::atomic<int> short_lived{0};
  std::thread host([&] {
    while (!stop.load()) {
      const auto stream = device.make_cpu_stream({.priority = 1});
      stream->launch("short", 3, [&](int, int) { short_lived.fetch_add(1); });
      if (short_lived.load() % 2 == 0) stream->synchronize();
    }
  });
  std::int64_t sum = 0;
  while (sum < 3000 || short_lived.load() < 300) {
    steady->launch("steady", 1, [&](int, int) { ++sum; });
    steady->synchronize();
  }
  stop.store(true);
  host.join();
  EXPECT_EQ(short_lived.load() % 3, 0);
}

TEST(CpuDevice, MistakesAreRefused) {
  EXPECT_THROW(CpuDevice({.threads = -1}), UserError);
  EXPECT_THROW(CpuDevice({.threads = kMaxCpuWorkers + 1}), UserError);
  CpuDevice device({.threads = 1});
  const auto stream = device.make_cpu_stream();
  EXPECT_THROW(stream->launch("negative", -1, [](int, int) {}), std::invalid_argument);
  EXPECT_THROW(stream->launch("empty", 1, BlockFunction()), std::invalid_argument);
  EXPECT_THROW(stream->enqueue_host(HostFunction()), std::invalid_argument);
  EXPECT_NO_THROW(stream->synchronize());
}

TEST(CpuDevice, DescribesItself) {
  CpuDevice all;
  EXPECT_GE(all.num_workers(), 1);
  EXPECT_EQ(all.kind(), DeviceKind::kCpu);
  CpuDevice three({.threads = 3, .pinning = CpuPinning::kOff});
  EXPECT_FALSE(three.pinned());
  EXPECT_EQ(three.name(), "cpu, 3 workers");
  EXPECT_FALSE(CpuDevice({.threads = 64 + all.num_workers(), .pinning = CpuPinning::kOn}).pinned() &&
               std::thread::hardware_concurrency() < 64);
  CpuDevice one({.threads = 1, .pinning = CpuPinning::kOn});
  EXPECT_TRUE(one.pinned());
  const auto stream = one.make_stream({.name = "learner", .priority = 4});
  EXPECT_EQ(stream->name(), "learner");
  EXPECT_EQ(stream->priority(), 4);
  EXPECT_EQ(stream->partition().num_workers(), 1);
}

std::ptrdiff_t count_entries(const char* folder) {
  namespace fs = std::filesystem;
  return std::distance(fs::directory_iterator(folder), fs::directory_iterator());
}

TEST(CpuDevice, AThousandDevicesLeaveNothingBehind) {
  const std::ptrdiff_t threads = count_entries("/proc/self/task");
  const std::ptrdiff_t files = count_entries("/proc/self/fd");
  int sum = 0;
  for (int i = 0; i < 1000; ++i) {
    CpuDevice device({.threads = 1 + i % 3});
    if (i % 4 == 0) continue;  // end without any work
    const auto stream = device.make_cpu_stream();
    stream->launch("one", 1, [&](int, int) { ++sum; });
    if (i % 4 == 1) stream->synchronize();  // otherwise the destructors meet it busy
  }
  EXPECT_EQ(sum, 750);
  EXPECT_EQ(count_entries("/proc/self/fd"), files);
  // A joined thread's entry goes away a moment after the join.
  while (count_entries("/proc/self/task") > threads) std::this_thread::yield();
  EXPECT_EQ(count_entries("/proc/self/task"), threads);
}

}  // namespace
}  // namespace millrace
