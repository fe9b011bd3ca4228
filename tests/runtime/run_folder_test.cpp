#include "runtime/run_folder.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "runtime/error.hpp"

namespace millrace {
namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::ptrdiff_t entries(const fs::path& folder) {
  return std::distance(fs::directory_iterator(folder), fs::directory_iterator());
}

/// The message of the UserError that `call` throws, "" if it throws none.
template <class Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

class RunFolderTest : public testing::Test {
 protected:
  RunFolderTest() {
    std::string pattern = (fs::temp_directory_path() / "millrace-run-folder-XXXXXX").string();
    root_ = ::mkdtemp(pattern.data());
  }
  ~RunFolderTest() override {
    std::error_code ignored;
    fs::permissions(root_, fs::perms::owner_all, ignored);
    fs::remove_all(root_, ignored);
  }
  RunFolder cartpole() const { return RunFolder::create(root_ / "runs", "CartPole-v1", "first-try", 7); }

  fs::path root_;
};

TEST_F(RunFolderTest, NameHoldsEnvironmentExperimentSeedAndTime) {
  const RunFolder folder = cartpole();
  const std::string name = folder.path().filename().string();
  const std::string head = "CartPole-v1__first-try__7__";
  ASSERT_EQ(name.substr(0, head.size()), head);
  const std::string time = name.substr(head.size());
  ASSERT_EQ(time.size(), 15u) << time;
  for (std::size_t i = 0; i < time.size(); ++i) {
    EXPECT_EQ(std::isdigit(static_cast<unsigned char>(time[i])) != 0, i != 8) << time;
  }
  EXPECT_EQ(time[8], '-');
  EXPECT_TRUE(fs::is_directory(folder.checkpoints()));
}

TEST_F(RunFolderTest, HostileNamesStayInTheFolder) {
  const std::vector<std::string> hostile = {"../../etc", "a/b\\c",    "-rf", ".hidden",
                                            "",          "tab\there", "\n",  std::string(5000, 'x')};
  for (const std::string& name : hostile) {
    const RunFolder folder = RunFolder::create(root_, name, name, 1);
    EXPECT_EQ(fs::canonical(folder.path()).parent_path(), fs::canonical(root_)) << name;
    const std::string made = folder.path().filename().string();
    EXPECT_NE(made.front(), '.') << name;
    EXPECT_NE(made.front(), '-') << name;
    EXPECT_TRUE(std::all_of(made.begin(), made.end(), [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '-';
    })) << made;
  }
  EXPECT_EQ(entries(root_), static_cast<std::ptrdiff_t>(hostile.size()));
}

TEST_F(RunFolderTest, SimultaneousStartsNeverShareAFolder) {
  constexpr std::size_t kStarts = 16;
  std::vector<std::string> paths(kStarts);
  std::vector<std::thread> threads;
  for (std::string& path : paths) threads.emplace_back([&] { path = cartpole().path().string(); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::set<std::string>(paths.begin(), paths.end()).size(), kStarts);
  // Sixteen names differ at most in their second, so most of them are told apart by a suffix.
  EXPECT_TRUE(
      std::any_of(paths.begin(), paths.end(), [](const std::string& p) { return p.ends_with("-2"); }));
}

TEST_F(RunFolderTest, ExactFolderMayBeMissingOrEmptyButNotUsed) {
  const fs::path exact = root_ / "a" / "mine";
  EXPECT_EQ(RunFolder::at(exact).path(), exact);
  EXPECT_NE(refusal([&] { (void)RunFolder::at(exact); }).find(exact.string()), std::string::npos);
  fs::create_directory(root_ / "empty");
  EXPECT_EQ(RunFolder::at((root_ / "empty").string() + "/").path(), root_ / "empty");
}

TEST_F(RunFolderTest, OneOfSeveralGetsTheExactFolder) {
  std::vector<int> got(8, 0);
  std::vector<std::thread> threads;
  for (int& mine : got) {
    threads.emplace_back([&] { mine = refusal([&] { (void)RunFolder::at(root_ / "x"); }).empty() ? 1 : 0; });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::count(got.begin(), got.end(), 1), 1);
}

TEST_F(RunFolderTest, AFileInTheWayIsRefusedByName) {
  std::ofstream(root_ / "file") << "x";
  for (const fs::path& path : {root_ / "file", root_ / "file" / "below"}) {
    const std::string message = refusal([&] { (void)RunFolder::at(path); });
    EXPECT_NE(message.find((root_ / "file").string()), std::string::npos) << message;
  }
  EXPECT_NE(refusal([&] { (void)RunFolder::create(root_ / "file", "e", "x", 1); }), "");
  EXPECT_NE(refusal([&] { (void)RunFolder::existing(root_ / "file"); }), "");
  EXPECT_NE(refusal([&] { (void)RunFolder::existing(root_ / "none"); }), "");
  EXPECT_EQ(read(root_ / "file"), "x");
}

TEST_F(RunFolderTest, AFolderWithoutPermissionIsRefusedByName) {
  if (::geteuid() == 0) GTEST_SKIP() << "the superuser may write everywhere";
  fs::permissions(root_, fs::perms::owner_read | fs::perms::owner_exec);
  for (const std::string& message :
       {refusal([&] { (void)cartpole(); }), refusal([&] { (void)RunFolder::existing(root_); })}) {
    EXPECT_NE(message.find(root_.string()), std::string::npos) << message;
    EXPECT_NE(message.find("denied"), std::string::npos) << message;
  }
}

TEST_F(RunFolderTest, AFolderInUseIsNotGivenToASecondRun) {
  {
    const RunFolder running = RunFolder::at(root_);
    EXPECT_NE(refusal([&] { (void)RunFolder::existing(root_); }).find("in use"), std::string::npos);
  }
  EXPECT_EQ(RunFolder::existing(root_).path(), root_);
}

TEST_F(RunFolderTest, GoingOnRemovesWhatAKilledWriterLeft) {
  std::ofstream(root_ / ".config.toml.99.0.tmp") << "half";
  std::ofstream(root_ / "notes.tmp") << "kept";
  std::ofstream(root_ / ".profile") << "kept";
  (void)RunFolder::existing(root_);
  EXPECT_FALSE(fs::exists(root_ / ".config.toml.99.0.tmp"));
  EXPECT_EQ(entries(root_), 2);
}

TEST_F(RunFolderTest, AtomicWriteReplacesAndLeavesNothingBehind) {
  const fs::path path = root_ / "summary.json";
  write_text_atomically(path, "old");
  const std::string text = std::string("new\0text", 8) + std::string(3'000'000, 'x');
  write_text_atomically(path, text);
  EXPECT_EQ(read(path), text);
  EXPECT_EQ(entries(root_), 1);
}

TEST_F(RunFolderTest, AtomicWriteNamesPathAndReason) {
  const fs::path path = root_ / "none" / "summary.json";
  try {
    write_text_atomically(path, "text");
    FAIL() << "wrote into a folder that is not there";
  } catch (const RunError& error) {
    EXPECT_EQ(std::string(error.what()), "cannot write " + path.string() + ": No such file or directory.");
  }
}

TEST_F(RunFolderTest, AFailedAtomicWriteLeavesNothingBehind) {
  // A folder in the place of the file makes the rename, the last step, fail.
  fs::create_directories(root_ / "summary.json" / "inside");
  EXPECT_THROW(write_text_atomically(root_ / "summary.json", "text"), RunError);
  EXPECT_EQ(entries(root_), 1);
  EXPECT_TRUE(fs::exists(root_ / "summary.json" / "inside"));
}

TEST_F(RunFolderTest, AReaderNeverSeesHalfAText) {
  const fs::path path = root_ / "summary.json";
  const std::string a(200'000, 'a');
  const std::string b(100'000, 'b');
  write_text_atomically(path, a);
  std::thread writer([&] {
    for (int i = 0; i < 20; ++i) write_text_atomically(path, i % 2 == 0 ? b : a);
  });
  bool whole = true;
  for (int i = 0; i < 50; ++i) {
    const std::string seen = read(path);
    whole = whole && (seen == a || seen == b);
  }
  writer.join();
  EXPECT_TRUE(whole);
}

TEST_F(RunFolderTest, AnOutputFileOnAFullDeviceSaysSo) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  OutputFile file("/dev/full", OutputFile::Mode::kAppend);
  file.buffer() = "text";
  try {
    file.flush();
    FAIL() << "the full device took it";
  } catch (const RunError& error) {
    EXPECT_EQ(std::string(error.what()), "cannot write /dev/full: No space left on device.");
  }
  EXPECT_EQ(file.buffer(), "text");
}

}  // namespace
}  // namespace millrace
