// The reader of the golden data: its generator is the recording script's, its decoder keeps the promised
// precision, and it refuses damaged files. Known answers come from record_gymnasium.py.
#include "tests/golden/golden.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

namespace millrace::golden {
namespace {

const std::string kFolder = std::string(MILLRACE_SOURCE_DIR) + "/tests/golden/data";

struct Answer {
  std::uint32_t number;
  std::uint64_t index;
  std::array<float, 4> state;
  int action;
};

TEST(GoldenReader, DrawsTheScriptsInputs) {
  const Answer answers[] = {
      {0,
       0,
       {0x1.d4525c0000000p-1f, -0x1.dd2c0c0000000p+1f, 0x1.a56f9c0000000p-3f, 0x1.6851ae0000000p+3f},
       1},
      {0,
       1,
       {-0x1.94ebfc0000000p-1f, 0x1.a7f5800000000p+1f, 0x1.8572460000000p+0f, 0x1.1197880000000p-2f},
       0},
      {0,
       2,
       {-0x1.4b1c700000000p-1f, 0x1.81b7400000000p+1f, 0x1.af79000000000p-5f, 0x1.0aa8480000000p+1f},
       1},
      {0,
       49999,
       {0x1.4cef4c0000000p+1f, -0x1.188d080000000p+1f, 0x1.8209ec0000000p-5f, -0x1.af14400000000p-4f},
       1},
      {0,
       50000,
       {0x1.1fb2d80000000p-2f, -0x1.32db280000000p+0f, 0x1.5870bc0000000p-3f, -0x1.ee08840000000p+1f},
       0},
      {0,
       99999,
       {0x1.156bba0000000p+1f, 0x1.6cd7c00000000p-2f, 0x1.75d7600000000p-5f, -0x1.0be92c0000000p+2f},
       0},
      {1, 0, {-0x1.f7cd920000000p-1f, 0x1.4a530a0000000p-7f, 0, 0}, 0},
      {1, 1, {-0x1.59dacc0000000p-8f, 0x1.6cad9a0000000p-5f, 0, 0}, 2},
      {1, 2, {-0x1.d1d69a0000000p-1f, -0x1.244ed60000000p-4f, 0, 0}, 2},
      {1, 49999, {-0x1.227a360000000p-3f, 0x1.0c06ec0000000p-4f, 0, 0}, 0},
      {1, 50000, {-0x1.9595420000000p-1f, -0x1.30a2060000000p-4f, 0, 0}, 1},
      {1, 99999, {-0x1.ee185a0000000p-1f, 0x1.7d50620000000p-5f, 0, 0}, 0},
      {2,
       0,
       {-0x1.c08c2a0000000p-1f, -0x1.a790280000000p+1f, 0x1.8648100000000p+3f, 0x1.8933820000000p+2f},
       2},
      {2,
       1,
       {-0x1.0e05a80000000p-2f, -0x1.52db800000000p+0f, 0x1.5425560000000p+3f, -0x1.55417c0000000p+1f},
       1},
      {2,
       2,
       {-0x1.528cd40000000p+1f, 0x1.b054980000000p+1f, -0x1.1ae7520000000p+3f, -0x1.c0d4f00000000p+4f},
       1},
      {2,
       49999,
       {-0x1.4c1ba00000000p+0f, 0x1.4526f80000000p-2f, 0x1.8e68e00000000p+3f, -0x1.a0858c0000000p+4f},
       0},
      {2,
       50000,
       {0x1.38ccb80000000p+0f, -0x1.303ebc0000000p+1f, 0x1.04bcba0000000p+3f, -0x1.1f8ab80000000p+4f},
       0},
      {2,
       99999,
       {0x1.5197b20000000p+0f, 0x1.5b66f20000000p-1f, -0x1.41bacc0000000p+2f, -0x1.3e16ba0000000p+3f},
       2},
      {3, 0, {-0x1.d04de00000000p+1f, -0x1.faacbc0000000p+2f, 0, 0}, 0},
      {3, 1, {0x1.e7eb600000000p-2f, 0x1.7459ac0000000p+2f, 0, 0}, 2},
      {3, 2, {0x1.659f780000000p+1f, -0x1.6f6e7e0000000p+1f, 0, 0}, 2},
      {3, 49999, {0x1.c30b400000000p+1f, 0x1.881f920000000p+2f, 0, 0}, 1},
      {3, 50000, {0x1.305a080000000p+1f, 0x1.dc3e640000000p+1f, 0, 0}, 1},
      {3, 99999, {0x1.eb61c00000000p+0f, 0x1.6484120000000p+2f, 0, 0}, 0},
  };
  for (const Answer& answer : answers) {
    const Transition t = input(sources()[answer.number], answer.index);
    EXPECT_EQ(t.state, answer.state) << answer.number << " " << answer.index;
    EXPECT_EQ(t.action, answer.action) << answer.number << " " << answer.index;
  }
}

TEST(GoldenReader, DrawsAllOfThem) {
  const std::uint64_t digests[] = {0xfc20ba08047b5faau, 0x965568bfc00df577u, 0xd45782f82dac6f8au,
                                   0x7f7d95968391a298u};
  for (const Source& s : sources()) {
    std::uint64_t digest = 0, word = 0;
    const auto add = [&](std::uint64_t value) { digest ^= mix(value + (word++ << 32)); };
    for (std::uint32_t i = 0; i < kTransitions; ++i) {
      const Transition t = input(s, i);
      for (std::size_t f = 0; f < s.low.size(); ++f) add(std::bit_cast<std::uint32_t>(t.state[f]));
      add(static_cast<std::uint64_t>(t.action));
      add(static_cast<std::uint64_t>(t.num_torques));
    }
    EXPECT_EQ(digest, digests[s.number]) << s.id;
  }
}

TEST(GoldenReader, DecodesToTheResidualsPrecision) {
  EXPECT_EQ(decode(1.0f, 0), 1.0);
  EXPECT_EQ(decode(1.0f, 127), 1.0 + 0x1p-24);
  EXPECT_EQ(decode(1.0f, -127), 1.0 - 0x1p-24);
  EXPECT_EQ(decode(-2.0f, 127), -2.0 + 0x1p-23);
  EXPECT_EQ(decode(0.0f, 0), 0.0);
}

TEST(GoldenReader, TransitionsVisitEveryActionAndBothEnds) {
  for (const Source& s : sources()) {
    const auto all = transitions(kFolder, s.id);
    ASSERT_EQ(all.size(), kTransitions);
    std::vector<int> seen(9);
    int ends = 0;
    for (const Transition& t : all) {
      ++seen[static_cast<std::size_t>(t.action)];
      ends += t.terminated;
    }
    for (int a = 0; a < s.actions; ++a)
      EXPECT_GT(seen[static_cast<std::size_t>(a)], 5000) << s.id << " action " << a;
    if (s.number != 3) {
      EXPECT_GT(ends, 10000) << s.id;
      EXPECT_LT(ends, 60000) << s.id;
    } else {
      EXPECT_EQ(ends, 0);
    }
  }
}

TEST(GoldenReader, EpisodesEndOneWayOrTheOther) {
  for (const Source& s : sources()) {
    int terminated = 0, truncated = 0;
    for (const Episode& e : episodes(kFolder, s.id)) {
      EXPECT_TRUE(e.terminated || e.truncated);
      EXPECT_EQ(e.states.size(), e.actions.size() + 1);
      terminated += e.terminated;
      truncated += e.truncated;
    }
    EXPECT_GT(truncated, 10) << s.id;
    if (s.number != 3) {
      EXPECT_GT(terminated, 20) << s.id;
    }
  }
}

TEST(GoldenReader, RefusesWhatIsNoGoldenFile) {
  EXPECT_THROW(source("Cartpole-v1"), std::invalid_argument);
  EXPECT_THROW(episodes("/nowhere", "CartPole-v1"), std::runtime_error);
  const auto folder =
      std::filesystem::temp_directory_path() / ("millrace_golden_" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  const std::string name = "Pendulum-v1.episodes.bin";
  const std::string wrong_name = (folder / "CartPole-v1.episodes.bin").string();
  std::filesystem::copy_file(kFolder + "/" + name, wrong_name);
  std::filesystem::copy_file(kFolder + "/" + name, folder / name);
  EXPECT_THROW(episodes(folder.string(), "CartPole-v1"), std::runtime_error);  // another environment's header
  const auto size = std::filesystem::file_size(folder / name);
  EXPECT_EQ(episodes(folder.string(), "Pendulum-v1").size(), kEpisodes);
  for (const auto cut : {size - 1, size / 2, std::uintmax_t{30}, std::uintmax_t{27}, std::uintmax_t{0}}) {
    std::filesystem::resize_file(folder / name, cut);
    EXPECT_THROW(episodes(folder.string(), "Pendulum-v1"), std::runtime_error) << cut << " bytes";
  }
  std::filesystem::remove(folder / name);
  std::filesystem::copy_file(kFolder + "/" + name, folder / name);
  std::filesystem::resize_file(folder / name, size + 1);
  EXPECT_THROW(episodes(folder.string(), "Pendulum-v1"), std::runtime_error);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace millrace::golden
