// The number of usable CPUs: the affinity mask, and control group files of both versions made up in a folder.
#include "runtime/cpu_topology.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>

namespace millrace {
namespace {

namespace fs = std::filesystem;

class CgroupTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "millrace-cgroup-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { fs::remove_all(root_); }
  void write(const std::string& file, const std::string& text) const {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  fs::path root_;
};

TEST_F(CgroupTest, NothingThereMeansNoLimit) { EXPECT_FALSE(cgroup_cpu_limit(root_)); }

TEST_F(CgroupTest, Version2TakesTheTightestOfThePath) {
  write("proc/self/cgroup", "0::/user/job\n");
  write("sys/fs/cgroup/cpu.max", "max 100000\n");
  EXPECT_FALSE(cgroup_cpu_limit(root_));
  write("sys/fs/cgroup/user/cpu.max", "250000 100000\n");
  EXPECT_DOUBLE_EQ(cgroup_cpu_limit(root_).value_or(0.0), 2.5);
  write("sys/fs/cgroup/user/job/cpu.max", "800000 100000\n");
  EXPECT_DOUBLE_EQ(cgroup_cpu_limit(root_).value_or(0.0), 2.5);
  write("sys/fs/cgroup/user/job/cpu.max", "50000 100000\n");
  EXPECT_DOUBLE_EQ(cgroup_cpu_limit(root_).value_or(0.0), 0.5);
}

TEST_F(CgroupTest, AContainerSeesItsGroupAsTheRoot) {
  write("proc/self/cgroup", "0::/docker/0123456789abcdef\n");
  write("sys/fs/cgroup/cpu.max", "300000 100000\n");
  EXPECT_DOUBLE_EQ(cgroup_cpu_limit(root_).value_or(0.0), 3.0);
}

TEST_F(CgroupTest, Version1ReadsTheCpuController) {
  write("proc/self/cgroup", "5:cpuset:/other\n3:cpu,cpuacct:/job\n0::/\n");
  write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  EXPECT_FALSE(cgroup_cpu_limit(root_));
  write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "150000\n");
  EXPECT_DOUBLE_EQ(cgroup_cpu_limit(root_).value_or(0.0), 1.5);
}

TEST_F(CgroupTest, MalformedFilesMeanNoLimit) {
  write("proc/self/cgroup", "garbage\n0:\n0::\n::\n");
  write("sys/fs/cgroup/cpu.max", "many\n");
  EXPECT_FALSE(cgroup_cpu_limit(root_));
  write("sys/fs/cgroup/cpu.max", "100000 0\n");
  EXPECT_FALSE(cgroup_cpu_limit(root_));
}

TEST(CpuTopology, AllowedCpusFollowTheAffinityMask) {
  const std::vector<int> cpus = allowed_cpus();
  ASSERT_FALSE(cpus.empty());
  EXPECT_EQ(std::set<int>(cpus.begin(), cpus.end()).size(), cpus.size());
  EXPECT_GE(usable_cpus(), 1);
  EXPECT_LE(usable_cpus(), static_cast<int>(cpus.size()));
  std::thread([&] {  // a thread of its own: the mask of this one must stay
    ASSERT_TRUE(pin_this_thread(cpus.back()));
    EXPECT_EQ(allowed_cpus(), std::vector<int>{cpus.back()});
    EXPECT_EQ(usable_cpus(), 1);
  })
      .join();
  EXPECT_EQ(allowed_cpus(), cpus);
}

TEST(CpuTopology, PinningToNoSuchCpuIsRefused) {
  EXPECT_FALSE(pin_this_thread(-1));
  EXPECT_FALSE(pin_this_thread(1 << 20));
}

}  // namespace
}  // namespace millrace
