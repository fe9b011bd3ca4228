// Events of the CPU device, and how failures pass through them.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "runtime/cpu_device.hpp"
#include "tests/runtime/gate.hpp"

namespace millrace {
namespace {

TEST(CpuEvent, AnEventThatWasNeverRecordedIsReached) {
  CpuDevice device({.threads = 1});
  const auto stream = device.make_cpu_stream();
  const auto event = device.make_event();
  EXPECT_TRUE(event->query());
  event->synchronize();
  stream->wait(*event);
  bool ran = false;
  stream->enqueue_host([&] { ran = true; });
  stream->synchronize();
  EXPECT_TRUE(ran);
}

TEST(CpuEvent, RecordingAgainDoesNotMoveEarlierWaits) {
  CpuDevice device({.threads = 2});
  const auto first = device.make_cpu_stream();
  const auto second = device.make_cpu_stream();
  const auto waiting = device.make_cpu_stream();
  const auto event = device.make_event();
  Gate first_gate;
  Gate second_gate;
  first->launch("gate", 1, [&](int, int) { first_gate.pass(); });
  first->record(*event);
  waiting->wait(*event);
  std::atomic<bool> ran{false};
  waiting->enqueue_host([&] { ran.store(true); });
  second->launch("gate", 1, [&](int, int) { second_gate.pass(); });
  second->record(*event);  // the wait above is still for `first`
  second_gate.open();
  event->synchronize();
  EXPECT_TRUE(second->query());
  EXPECT_FALSE(ran.load());
  EXPECT_FALSE(waiting->query());
  first_gate.open();
  waiting->synchronize();
  EXPECT_TRUE(ran.load());
}

TEST(CpuEvent, ALongChainOfWaitingStreamsResumes) {
  CpuDevice device({.threads = 2});
  constexpr int kStreams = 300;
  std::vector<std::unique_ptr<CpuStream>> streams;
  std::vector<std::unique_ptr<Event>> events;
  Gate gate;
  int sum = 0;
  for (int i = 0; i < kStreams; ++i) {
    streams.push_back(device.make_cpu_stream());
    events.push_back(device.make_event());
    if (i == 0) streams[0]->launch("gate", 1, [&](int, int) { gate.pass(); });
    if (i > 0) streams.back()->wait(*events[static_cast<std::size_t>(i) - 1]);
    if (i % 3 == 0) streams.back()->enqueue_host([&sum] { ++sum; });
    streams.back()->record(*events.back());
  }
  EXPECT_FALSE(events.back()->query());
  gate.open();
  events.back()->synchronize();
  EXPECT_EQ(sum, kStreams / 3);
}

/// Launches of one random program: which blocks are done, and which launches must be over before each starts.
struct RandomLaunch {
  int blocks = 0;
  std::vector<std::size_t> after;
  std::atomic<int> done{0};
};

TEST(CpuEvent, RandomProgramsKeepTheirOrder) {
  constexpr std::size_t kStreams = 6;
  constexpr std::size_t kEvents = 4;
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&random](std::size_t bound) { return static_cast<std::size_t>(random() % bound); };
    CpuDevice device({.threads = 1 + static_cast<int>(seed % 4)});
    std::vector<std::unique_ptr<CpuStream>> streams;
    std::vector<std::unique_ptr<Event>> events;
    for (std::size_t i = 0; i < kStreams; ++i) {
      const std::vector<int> workers{static_cast<int>(below(static_cast<std::size_t>(device.num_workers())))};
      streams.push_back(
          device.make_cpu_stream({.priority = static_cast<int>(below(3)),
                                  .partition = i % 2 ? device.make_partition(workers) : nullptr}));
    }
    for (std::size_t i = 0; i < kEvents; ++i) events.push_back(device.make_event());
    std::vector<std::unique_ptr<RandomLaunch>> launches;
    std::vector<std::vector<std::size_t>> before(kStreams);   // what the stream's next launch comes after
    std::vector<std::vector<std::size_t>> recorded(kEvents);  // what the event stands for
    std::atomic<int> violations{0};
    for (int step = 0; step < 2000; ++step) {
      const std::size_t stream = below(kStreams);
      const std::size_t event = below(kEvents);
      const std::size_t choice = below(4);
      if (choice == 0) {
        streams[stream]->record(*events[event]);
        recorded[event] = before[stream];
      } else if (choice == 1) {
        streams[stream]->wait(*events[event]);
        before[stream].insert(before[stream].end(), recorded[event].begin(), recorded[event].end());
      } else {
        launches.push_back(std::make_unique<RandomLaunch>());
        RandomLaunch& launch = *launches.back();
        launch.blocks = static_cast<int>(below(5));
        launch.after = before[stream];
        if (launch.blocks > 0) before[stream] = {launches.size() - 1};  // an empty one passes its order on
        std::vector<const RandomLaunch*> after;
        for (const std::size_t index : launch.after) after.push_back(launches[index].get());
        streams[stream]->launch("check", launch.blocks, [&launch, &violations, after](int, int) {
          for (const RandomLaunch* const earlier : after) {
            if (earlier->done.load() != earlier->blocks) violations.fetch_add(1);
          }
          launch.done.fetch_add(1);
        });
      }
    }
    for (const auto& stream : streams) stream->synchronize();
    EXPECT_EQ(violations.load(), 0) << "seed " << seed;
    EXPECT_TRUE(std::all_of(launches.begin(), launches.end(),
                            [](const auto& launch) { return launch->done.load() == launch->blocks; }));
  }
}

TEST(CpuEvent, EventsOrderStreamsOfTwoDevices) {
  CpuDevice left({.threads = 2});
  const auto event = left.make_event();
  for (int repeat = 0; repeat < 200; ++repeat) {
    const auto producer = left.make_cpu_stream();
    CpuDevice right({.threads = 1});
    const auto consumer = right.make_cpu_stream();
    int value = 0;
    producer->launch("write", 1, [&](int, int) { value = 41; });
    producer->record(*event);
    consumer->wait(*event);
    consumer->launch("read", 1, [&](int, int) { ++value; });
    consumer->synchronize();
    EXPECT_EQ(value, 42);
  }
}

TEST(CpuEvent, EventSynchronizeThrowsOnlyFailuresBeforeIt) {
  CpuDevice device({.threads = 2});
  const auto stream = device.make_cpu_stream();
  const auto before = device.make_event();
  const auto after = device.make_event();
  bool skipped = true;
  stream->enqueue_host([] {});
  stream->record(*before);
  stream->enqueue_host([] { throw std::out_of_range("host function failed"); });
  stream->record(*after);
  stream->enqueue_host([&] { skipped = false; });
  EXPECT_NO_THROW(before->synchronize());
  EXPECT_THROW(after->synchronize(), std::out_of_range);
  EXPECT_NO_THROW(stream->synchronize());
  EXPECT_TRUE(skipped);
}

TEST(CpuEvent, AFailedStreamStillReleasesThoseWhoWait) {
  CpuDevice device({.threads = 2});
  const auto failing = device.make_cpu_stream();
  const auto waiting = device.make_cpu_stream();
  const auto event = device.make_event();
  bool ran = false;
  failing->enqueue_host([] { throw std::runtime_error("failed"); });
  failing->enqueue_host([] {});
  failing->record(*event);
  waiting->wait(*event);
  waiting->enqueue_host([&] { ran = true; });
  EXPECT_NO_THROW(waiting->synchronize());
  EXPECT_TRUE(ran);
  EXPECT_THROW(failing->synchronize(), std::runtime_error);
}

TEST(CpuEvent, AnUntakenFailureIsReportedByTheDestructor) {
  CpuDevice device({.threads = 1});
  testing::internal::CaptureStderr();
  {
    const auto stream = device.make_cpu_stream({.name = "rollout"});
    stream->launch("step", 2, [](int, int) { throw std::runtime_error("planted"); });
  }
  const std::string printed = testing::internal::GetCapturedStderr();
  EXPECT_EQ(printed,
            "millrace: stream 'rollout' ended with a failure in 'step' that nobody asked for: planted\n");
}

TEST(CpuEvent, WorkMayEnqueueButNotSynchronize) {
  CpuDevice device({.threads = 1});
  const auto stream = device.make_cpu_stream();
  int depth = 0;
  stream->enqueue_host([&] {
    ++depth;
    stream->enqueue_host([&] { ++depth; });
  });
  while (!stream->query()) std::this_thread::yield();
  stream->synchronize();
  EXPECT_EQ(depth, 2);
  stream->enqueue_host([&] { stream->synchronize(); });
  EXPECT_THROW(stream->synchronize(), std::logic_error);
}

}  // namespace
}  // namespace millrace
