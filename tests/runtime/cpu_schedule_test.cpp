// Who runs when on the CPU device: concurrency, priorities, partitions.
//
// No test decides by time: gates hold blocks where the test needs them.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "runtime/cpu_device.hpp"
#include "runtime/error.hpp"
#include "tests/runtime/gate.hpp"

namespace millrace {
namespace {

TEST(CpuSchedule, StreamsAreConcurrent) {
  CpuDevice device({.threads = 2});
  const auto first = device.make_cpu_stream();
  const auto second = device.make_cpu_stream();
  for (int repeat = 0; repeat < 200; ++repeat) {
    std::atomic<int> met{0};
    const auto meet = [&met](int, int) {  // ends only if both streams run at the same time
      met.fetch_add(1);
      while (met.load() < 2) std::this_thread::yield();
    };
    first->launch("meet", 1, meet);
    second->launch("meet", 1, meet);
    first->synchronize();
    second->synchronize();
    EXPECT_EQ(met.load(), 2);
  }
}

TEST(CpuSchedule, BlocksOfALaunchAreConcurrent) {
  constexpr int kWorkers = 4;
  CpuDevice device({.threads = kWorkers});
  const auto stream = device.make_cpu_stream();
  for (int repeat = 0; repeat < 100; ++repeat) {
    if (repeat % 10 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));  // let them park
    std::atomic<int> met{0};
    stream->launch("meet", kWorkers, [&met](int, int) {  // ends only if every worker wakes
      met.fetch_add(1);
      while (met.load() < kWorkers) std::this_thread::yield();
    });
    stream->synchronize();
    EXPECT_EQ(met.load(), kWorkers);
  }
}

TEST(CpuSchedule, AFreeWorkerPrefersTheHigherPriority) {
  CpuDevice device({.threads = 1});
  const auto gatekeeper = device.make_cpu_stream();
  const auto low = device.make_cpu_stream({.priority = -1});
  const auto middle = device.make_cpu_stream({.priority = 2});
  const auto high = device.make_cpu_stream({.priority = 7});
  Gate gate;
  std::string order;
  gatekeeper->launch("gate", 1, [&](int, int) { gate.pass(); });
  gate.wait_for_arrivals(1);
  low->launch("low", 3, [&](int, int) { order += 'l'; });
  middle->launch("middle", 2, [&](int, int) { order += 'm'; });
  high->launch("high", 2, [&](int, int) { order += 'h'; });
  high->launch("high", 1, [&](int, int) { order += 'H'; });
  gate.open();
  low->synchronize();
  EXPECT_EQ(order, "hhHmmlll");
}

TEST(CpuSchedule, ABlockOfHigherPriorityGoesBetweenTheBlocksOfALaunch) {
  CpuDevice device({.threads = 1});
  const auto low = device.make_cpu_stream({.priority = 0});
  const auto high = device.make_cpu_stream({.priority = 1});
  std::string order;
  low->launch("low", 4, [&](int block, int) {
    order += 'l';
    if (block == 1) high->launch("high", 2, [&](int, int) { order += 'h'; });
  });
  low->synchronize();
  high->synchronize();
  EXPECT_EQ(order, "llhhll");
}

TEST(CpuSchedule, EqualPrioritiesTakeTurns) {
  CpuDevice device({.threads = 1});
  const auto gatekeeper = device.make_cpu_stream({.priority = 1});
  const auto first = device.make_cpu_stream();
  const auto second = device.make_cpu_stream();
  Gate gate;
  std::string order;
  gatekeeper->launch("gate", 1, [&](int, int) { gate.pass(); });
  gate.wait_for_arrivals(1);
  first->launch("a", 3, [&](int, int) { order += 'a'; });
  second->launch("b", 3, [&](int, int) { order += 'b'; });
  gate.open();
  first->synchronize();
  second->synchronize();
  EXPECT_EQ(order, "ababab");
}

TEST(CpuSchedule, PartitionsAreRespected) {
  CpuDevice device({.threads = 5});
  const std::array<int, 2> sizes{2, 3};
  const auto partitions = device.make_partitions(sizes);
  const std::array<int, 2> chosen{4, 1};
  const auto picked = device.make_partition(chosen);
  EXPECT_EQ(picked->workers(), (std::vector<int>{1, 4}));
  EXPECT_EQ(partitions[1]->num_workers(), 3);
  struct Case {
    std::shared_ptr<const Partition> partition;
    std::vector<int> workers;
  };
  const std::vector<Case> cases = {
      {partitions[0], {0, 1}}, {partitions[1], {2, 3, 4}}, {picked, {1, 4}}, {nullptr, {0, 1, 2, 3, 4}}};
  for (const Case& expected : cases) {
    const auto stream = device.make_cpu_stream({.partition = expected.partition});
    std::vector<std::atomic<int>> runs(5);
    // As many blocks meet as the partition has workers: each of them must take part, and no other may.
    const int size = static_cast<int>(expected.workers.size());
    std::atomic<int> met{0};
    stream->launch("meet", size, [&](int, int worker) {
      runs[static_cast<std::size_t>(worker)].fetch_add(1);
      met.fetch_add(1);
      while (met.load() < size) std::this_thread::yield();
    });
    stream->launch("many", 500,
                   [&](int, int worker) { runs[static_cast<std::size_t>(worker)].fetch_add(1); });
    stream->synchronize();
    for (int worker = 0; worker < 5; ++worker) {
      const bool allowed = std::count(expected.workers.begin(), expected.workers.end(), worker) > 0;
      EXPECT_EQ(runs[static_cast<std::size_t>(worker)].load() > 0, allowed) << worker;
    }
  }
}

TEST(CpuSchedule, ABusyPartitionDoesNotHoldUpAnother) {
  CpuDevice device({.threads = 3});
  const std::array<int, 2> sizes{2, 1};
  const auto partitions = device.make_partitions(sizes);
  const auto rollout = device.make_cpu_stream({.priority = 9, .partition = partitions[0]});
  const auto learner = device.make_cpu_stream({.partition = partitions[1]});
  Gate gate;
  rollout->launch("gate", 2, [&](int, int) { gate.pass(); });
  gate.wait_for_arrivals(2);
  int updates = 0;
  for (int i = 0; i < 1000; ++i) learner->launch("update", 1, [&](int, int) { ++updates; });
  learner->synchronize();
  EXPECT_EQ(updates, 1000);
  EXPECT_FALSE(rollout->query());
  gate.open();
}

TEST(CpuSchedule, ImpossiblePartitionsAreRefused) {
  CpuDevice device({.threads = 3});
  const std::array<int, 2> too_many{2, 2};
  const std::array<int, 2> empty{0, 1};
  const std::array<int, 2> twice{1, 1};
  const std::array<int, 1> beyond{3};
  EXPECT_THROW(static_cast<void>(device.make_partitions(too_many)), UserError);
  EXPECT_THROW(static_cast<void>(device.make_partitions(empty)), UserError);
  EXPECT_THROW(static_cast<void>(device.make_partition(twice)), UserError);
  EXPECT_THROW(static_cast<void>(device.make_partition(beyond)), UserError);
  CpuDevice other({.threads = 3});
  const std::array<int, 1> one{1};
  const StreamOptions foreign{.partition = other.make_partition(one)};
  EXPECT_THROW(static_cast<void>(device.make_stream(foreign)), std::invalid_argument);
}

}  // namespace
}  // namespace millrace
