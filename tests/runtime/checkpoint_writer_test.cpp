// The background writer: what it keeps and drops, what it does with failures, and that a run killed at any
// moment loses nothing that was durable.
#include "runtime/checkpoint_writer.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <limits>
#include <random>
#include <semaphore>
#include <thread>

#include "checkpoint_samples.hpp"
#include "runtime/checkpoint_folder.hpp"
#include "runtime/error.hpp"

namespace millrace {
namespace {

using test::expect_contains;
using test::make_file;
using test::message_of;
using test::names_in;
using test::sample_checkpoint;
using test::TemporaryFolder;
using Keep = CheckpointWriter::Keep;
namespace fs = std::filesystem;

std::set<std::string> step_names(const std::vector<std::uint64_t>& steps, bool best = false) {
  std::set<std::string> names;
  for (const std::uint64_t step : steps) names.insert(checkpoint_file_name(step));
  if (best) names.insert(std::string(kBestCheckpointName));
  return names;
}

std::string step_of_best(const fs::path& folder) {
  return read_checkpoint(folder / kBestCheckpointName).metadata("step");
}

/// What the writer makes of sample_checkpoint(step).
void expect_sample(const Checkpoint& checkpoint, std::uint64_t step) {
  EXPECT_EQ(checkpoint.metadata("step"), std::to_string(step));
  EXPECT_TRUE(checkpoint.tensors() == sample_checkpoint(step).tensors()) << step;
}

/// A writer that waits inside its first write until it is let go.
class HeldWriter {
 public:
  explicit HeldWriter(const fs::path& folder, std::size_t keep_last = 100)
      : writer_(folder, {.keep_last = keep_last,
                         .keep_best = true,
                         .resumed_step = std::nullopt,
                         .on_written = [this](const fs::path&, std::uint64_t) {
                           if (first_) {
                             first_ = false;
                             entered_.release();
                             let_go_.acquire();
                           }
                         }}) {}
  void hold_in(std::uint64_t step, std::optional<double> score = std::nullopt) {
    writer_.submit(sample_checkpoint(step), step, score);
    entered_.acquire();
  }
  void let_go() { let_go_.release(); }
  CheckpointWriter& writer() { return writer_; }

 private:
  bool first_ = true;  // of the writer's thread
  std::binary_semaphore entered_{0};
  std::binary_semaphore let_go_{0};
  CheckpointWriter writer_;
};

TEST(CheckpointWriter, KeepsTheLastFewAndTheBest) {
  const TemporaryFolder run;
  const fs::path folder = run / "a/checkpoints";
  CheckpointWriter writer(folder, {.keep_last = 2, .keep_best = true, .resumed_step = {}, .on_written = {}});
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::pair<std::optional<double>, std::string> scores[] = {{nan, ""},  {std::nullopt, ""}, {-5.0, "3"},
                                                                  {7.0, "4"}, {6.5, "4"},         {7.0, "4"},
                                                                  {nan, "4"}, {7.25, "8"}};
  for (std::uint64_t step = 1; const auto& [score, best] : scores) {
    writer.submit(sample_checkpoint(step), step, score);
    writer.flush();
    std::vector<std::uint64_t> kept = {step};
    if (step > 1) kept.push_back(step - 1);
    EXPECT_EQ(names_in(folder), step_names(kept, !best.empty()));
    EXPECT_EQ(writer.last_written(), folder / checkpoint_file_name(step));
    if (!best.empty()) {
      EXPECT_EQ(step_of_best(folder), best);
      EXPECT_EQ(std::to_string(writer.best()->step), best);
      expect_sample(read_checkpoint(folder / kBestCheckpointName), writer.best()->step);
    }
    expect_sample(find_latest_checkpoint(folder)->checkpoint, step);
    ++step;
  }
  EXPECT_EQ(read_checkpoint(folder / kBestCheckpointName).metadata("score"), "7.25");
}

TEST(CheckpointWriter, ABusyWriterSkipsAllButTheNewestTheRequiredAndTheBest) {
  const TemporaryFolder folder;
  HeldWriter held(folder.path());
  held.hold_in(1, 3.0);
  const auto submit = [&](std::uint64_t step, std::optional<double> score, Keep keep = Keep::kIfTimely) {
    held.writer().submit(sample_checkpoint(step), step, score, keep);
  };
  submit(2, std::nullopt);
  submit(3, std::nullopt, Keep::kAlways);
  submit(4, 2.0);  // worse than the one that is being written
  submit(5, 3.0);  // ties keep the earlier one
  submit(6, 8.0);  // will be beaten while it waits
  submit(7, 9.0);  // will be the best
  submit(8, 9.0, Keep::kAlways);
  submit(9, 8.5);
  submit(10, std::nullopt);
  held.let_go();
  held.writer().flush();
  EXPECT_EQ(names_in(folder.path()), step_names({1, 3, 7, 8, 10}, true));
  EXPECT_EQ(step_of_best(folder.path()), "7");
  for (const CheckpointFile& file : list_checkpoints(folder.path())) {
    expect_sample(read_checkpoint(file.path), file.step);
  }
}

TEST(CheckpointWriter, TheDestructorWritesWhatWaits) {
  const TemporaryFolder folder;
  {
    HeldWriter held(folder.path());
    held.hold_in(1);
    held.writer().submit(sample_checkpoint(2), 2, std::nullopt, Keep::kAlways);
    held.writer().submit(sample_checkpoint(3), 3);
    held.let_go();
  }
  EXPECT_EQ(names_in(folder.path()), step_names({1, 2, 3}));
}

TEST(CheckpointWriter, GoesOnInAnExistingFolder) {
  const TemporaryFolder folder;
  const CheckpointWriterOptions options = {
      .keep_last = 2, .keep_best = true, .resumed_step = {}, .on_written = {}};
  {
    CheckpointWriter writer(folder.path(), options);
    for (const std::uint64_t step : {10, 20, 30}) {
      writer.submit(sample_checkpoint(step), step, step == 20 ? 5.0 : 1.0, Keep::kAlways);
    }
  }
  make_file(folder / ".step_000000000040.safetensors.0000000000000001.checkpoint.tmp", "half");
  {
    CheckpointWriter writer(folder.path(), options);
    EXPECT_EQ(names_in(folder.path()), step_names({20, 30}, true));
    EXPECT_EQ(writer.best()->step, 20u);
    EXPECT_EQ(writer.best()->score, 5.0);
    EXPECT_FALSE(writer.last_written().has_value());
    writer.submit(sample_checkpoint(40), 40, 4.0);
    writer.flush();
    EXPECT_EQ(names_in(folder.path()), step_names({30, 40}, true));
    EXPECT_EQ(step_of_best(folder.path()), "20");
  }
  make_file(folder / kBestCheckpointName, "damaged");
  CheckpointWriter writer(folder.path(), options);
  EXPECT_FALSE(writer.best().has_value());
  writer.submit(sample_checkpoint(50), 50, -1.0);
  writer.flush();
  EXPECT_EQ(step_of_best(folder.path()), "50");
}

TEST(CheckpointWriter, AResumedRunReplacesLaterStepsOnceItHasItsOwn) {
  const TemporaryFolder folder;
  for (const std::uint64_t step : {10, 20, 40}) {
    write_checkpoint(sample_checkpoint(step), folder / checkpoint_file_name(step));
  }
  make_file(folder / checkpoint_file_name(30), "damaged");
  CheckpointWriter writer(folder.path(),
                          {.keep_last = 2, .keep_best = true, .resumed_step = 20, .on_written = {}});
  EXPECT_EQ(names_in(folder.path()), step_names({10, 20, 30, 40}));
  writer.submit(sample_checkpoint(30), 30);
  writer.flush();
  EXPECT_EQ(names_in(folder.path()), step_names({20, 30}));
  expect_sample(find_latest_checkpoint(folder.path())->checkpoint, 30);
  writer.submit(sample_checkpoint(40), 40);
  writer.flush();
  EXPECT_EQ(names_in(folder.path()), step_names({30, 40}));
}

// A file of a later step that is damaged must not make the writer delete what it has just written.
TEST(CheckpointWriter, TheNewestFileStaysWhateverTheOthersAreCalled) {
  const TemporaryFolder folder;
  make_file(folder / checkpoint_file_name(99), "damaged");
  CheckpointWriter writer(folder.path(),
                          {.keep_last = 1, .keep_best = false, .resumed_step = {}, .on_written = {}});
  writer.submit(sample_checkpoint(5), 5, 1.0);
  writer.flush();
  EXPECT_EQ(names_in(folder.path()), step_names({5}));
}

TEST(CheckpointWriter, FailuresAreReportedOnceWithTheLastGoodCheckpoint) {
  const TemporaryFolder folder;
  CheckpointWriter writer(folder.path());
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit low = {64, before.rlim_max};
  const auto submit_in_vain = [&](std::uint64_t step) {
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &low), 0);
    writer.submit(sample_checkpoint(step), step, 100.0, Keep::kAlways);
  };
  submit_in_vain(1);
  const std::string first = message_of<RunError>([&] { writer.flush(); });
  expect_contains(first, "cannot write " + (folder / checkpoint_file_name(1)).string() + ": File too large.");
  expect_contains(first, "There is no good checkpoint yet.");
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_TRUE(names_in(folder.path()).empty());
  EXPECT_FALSE(writer.best().has_value());

  writer.submit(sample_checkpoint(2), 2, 1.0);
  writer.flush();  // the first failure has been reported, and writing goes on
  submit_in_vain(3);
  submit_in_vain(4);
  const std::string second = message_of<RunError>([&] { writer.flush(); });
  expect_contains(second, checkpoint_file_name(3));
  expect_contains(second, "The last good checkpoint is " + (folder / checkpoint_file_name(2)).string() + ".");
  writer.throw_if_failed();
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(names_in(folder.path()), step_names({2}, true));
  expect_sample(find_latest_checkpoint(folder.path())->checkpoint, 2);
}

TEST(CheckpointWriter, ALastGoodCheckpointOfAnEarlierRunIsNamedIfItIsValid) {
  const TemporaryFolder folder;
  write_checkpoint(sample_checkpoint(1), folder / checkpoint_file_name(1));
  make_file(folder / checkpoint_file_name(2), "damaged");
  CheckpointWriter writer(folder.path());
  fs::create_directory(folder / checkpoint_file_name(3));  // in the way
  writer.submit(sample_checkpoint(3), 3);
  const std::string message = message_of<RunError>([&] { writer.flush(); });
  expect_contains(message,
                  "The last good checkpoint is " + (folder / checkpoint_file_name(1)).string() + ".");
}

TEST(CheckpointWriter, ExceptionsOfTheCallbackAreFailures) {
  const TemporaryFolder folder;
  CheckpointWriter writer(folder.path(),
                          {.keep_last = 3,
                           .keep_best = true,
                           .resumed_step = {},
                           .on_written = [](const fs::path&, std::uint64_t) { throw RunError("no more."); }});
  writer.submit(sample_checkpoint(1), 1);
  expect_contains(message_of<RunError>([&] { writer.flush(); }), "no more.");
}

TEST(CheckpointWriter, RefusesFoldersThatCannotBe) {
  const TemporaryFolder folder;
  make_file(folder / "file", "text");
  expect_contains(message_of<RunError>([&] { CheckpointWriter writer(folder / "file"); }),
                  "cannot make the folder");
  expect_contains(message_of<RunError>([&] { CheckpointWriter writer(folder / "file/below"); }),
                  "file/below");
  EXPECT_THROW(CheckpointWriter(folder.path(),
                                {.keep_last = 0, .keep_best = true, .resumed_step = {}, .on_written = {}}),
               std::invalid_argument);
}

TEST(CheckpointWriter, ManyThreadsMaySubmitAndAsk) {
  const TemporaryFolder folder;
  CheckpointWriter writer(folder.path());
  std::vector<std::thread> threads;
  for (std::uint64_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&writer, thread] {
      for (std::uint64_t i = 0; i < 25; ++i) {
        const std::uint64_t step = 4 * i + thread;
        writer.submit(sample_checkpoint(step), step, static_cast<double>(step % 97));
        if (i % 10 == 3) writer.flush();
        (void)writer.best();
        (void)writer.last_written();
        writer.throw_if_failed();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  writer.flush();
  EXPECT_EQ(writer.best()->score, 96.0);
  EXPECT_EQ(list_checkpoints(folder.path()).size(), 3u);
  EXPECT_EQ(step_of_best(folder.path()), "96");
}

std::size_t entries_in(const char* folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

/// A joined thread may still be on its way out of the system's list.
std::size_t threads_now(std::size_t expected) {
  for (int round = 0; round < 10'000 && entries_in("/proc/self/task") > expected; ++round)
    std::this_thread::yield();
  return entries_in("/proc/self/task");
}

TEST(CheckpointWriter, AThousandWritersLeaveNoThreadAndNoFile) {
  const TemporaryFolder folder;
  { CheckpointWriter writer(folder.path()); }
  const std::size_t threads = threads_now(1);
  const std::size_t files = entries_in("/proc/self/fd");
  for (std::uint64_t i = 0; i < 1000; ++i) {
    CheckpointWriter writer(folder.path());
    if (i % 10 == 0) writer.submit(sample_checkpoint(i), i, static_cast<double>(i));
  }
  EXPECT_EQ(threads_now(threads), threads);
  EXPECT_EQ(entries_in("/proc/self/fd"), files);
  EXPECT_EQ(names_in(folder.path()), step_names({970, 980, 990}, true));
}

// ---- Crash safety
// --------------------------------------------------------------------------------------------

/// Writes checkpoints for ever, and says on the pipe which are durable.
[[noreturn]] void write_until_killed(const fs::path& folder, std::uint64_t first_step, int pipe) {
  CheckpointWriter writer(folder, {.keep_last = 2,
                                   .keep_best = true,
                                   .resumed_step = {},
                                   .on_written = [pipe](const fs::path&, std::uint64_t step) {
                                     if (::write(pipe, &step, sizeof step) != sizeof step) ::_exit(1);
                                   }});
  for (std::uint64_t step = first_step;; ++step) {
    writer.submit(sample_checkpoint(step, step % 7 * 1000), step, static_cast<double>(step % 5),
                  Keep::kAlways);
    if (step % 4 == 0) writer.flush();
  }
}

TEST(CheckpointWriter, KilledAtAnyMomentTheLatestDurableCheckpointLoads) {
  const TemporaryFolder folder;
  std::mt19937 random(11);
  std::uint64_t durable = 0;
  for (int kill = 0; kill < 20; ++kill) {
    std::array<int, 2> pipe = {};
    ASSERT_EQ(::pipe(pipe.data()), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) write_until_killed(folder.path(), durable + 1, pipe[1]);
    ::close(pipe[1]);
    std::uint64_t step = 0;
    for (std::uint64_t left = random() % 6; left > 0; --left) {
      ASSERT_EQ(::read(pipe[0], &step, sizeof step), static_cast<ssize_t>(sizeof step));
      durable = step;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 20'000));
    ::kill(child, SIGKILL);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    while (::read(pipe[0], &step, sizeof step) == static_cast<ssize_t>(sizeof step)) durable = step;
    ::close(pipe[0]);

    std::vector<SkippedCheckpoint> skipped;
    const auto found = find_latest_checkpoint(folder.path(), &skipped);
    EXPECT_TRUE(skipped.empty());
    ASSERT_TRUE(found.has_value() || durable == 0) << durable;
    if (!found) continue;
    const std::uint64_t latest = std::stoull(found->checkpoint.metadata("step"));
    EXPECT_GE(latest, durable);
    EXPECT_TRUE(found->checkpoint.tensors() == sample_checkpoint(latest, latest % 7 * 1000).tensors());
    durable = latest;
    if (fs::exists(folder / kBestCheckpointName)) (void)read_checkpoint(folder / kBestCheckpointName);
  }
  EXPECT_GT(durable, 0u);
  { CheckpointWriter writer(folder.path()); }
  for (const std::string& name : names_in(folder.path())) EXPECT_FALSE(name.starts_with('.')) << name;
}

}  // namespace
}  // namespace millrace
