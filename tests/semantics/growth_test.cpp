// Nothing grows: a thousand runs in one process give back their threads, files and temporary files.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "runtime/config_reader.hpp"
#include "runtime/registry.hpp"
#include "runtime/run.hpp"

namespace millrace {
namespace {

namespace fs = std::filesystem;

std::ptrdiff_t entries(const fs::path& folder) {
  return std::distance(fs::directory_iterator(folder), fs::directory_iterator());
}

std::size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

struct Holdings {
  std::ptrdiff_t threads = entries("/proc/self/task");
  std::ptrdiff_t files = entries("/proc/self/fd");
  std::ptrdiff_t temporary_files = entries(fs::temp_directory_path());
  std::size_t bytes = resident_bytes();
};

TEST(Growth, AThousandRunsInOneProcess) {
  // A place for temporary files that no other test uses.
  const fs::path place = fs::path(testing::TempDir()) / ("growth_" + std::to_string(::getpid()));
  fs::create_directories(place / "temporary");
  ASSERT_EQ(::setenv("TMPDIR", (place / "temporary").c_str(), 1), 0);
  const fs::path folder = place / "run";
  const ExperimentConfig config = parse_config(
      R"(experiment = "growth"
[env]
id = "CartPole-v1"
num_envs = 32
[algo]
name = "pqn"
total_steps = 256
num_steps = 4
num_minibatches = 2
[network]
hidden = [16]
[eval]
episodes = 4
every = 128
[run]
threads = 3
checkpoint_every = 128
)",
      "growth", {}, [](const std::string& id) { return parameter_fields(id); });
  RunOptions options;
  options.quiet = true;
  options.picture = false;
  options.run_dir = folder;
  const std::atomic<bool> interrupt = false;
  const auto once = [&] {
    fs::remove_all(folder);
    EXPECT_EQ(train(config, options, interrupt).steps, 256u);
    fs::remove_all(folder);
  };
  for (int i = 0; i < 20; ++i) once();  // the allocator and the libraries settle
  const Holdings before;
  for (int i = 0; i < 1000 && !HasFailure(); ++i) once();
  const Holdings after;
  EXPECT_EQ(after.threads, before.threads);
  EXPECT_EQ(after.files, before.files);
  EXPECT_EQ(after.temporary_files, before.temporary_files);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LE(after.bytes, before.bytes + (std::size_t{4} << 20));
#endif
  fs::remove_all(place);
}

}  // namespace
}  // namespace millrace
