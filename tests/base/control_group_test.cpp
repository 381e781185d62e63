#include "base/internal/control_group.h"

#include <cairn/base/file.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "support/temporary_folder.h"

namespace cairn::control_group_test {
namespace {

/// A root folder with the files a test names.
class ControlGroup : public ::testing::Test {
 protected:
  void put(std::string_view path, std::string_view text) {
    const auto file = root_ / path;
    std::filesystem::create_directories(file.parent_path());
    write_file_atomically(file, text);
  }
  ControlGroupLimits limits() const {
    return ControlGroupLimits::read(root_.path());
  }

 private:
  testing::TemporaryFolder root_;
};

TEST_F(ControlGroup, NothingThereLimitsNothing) {
  EXPECT_EQ(limits().cpus, std::nullopt);
  EXPECT_EQ(limits().memory_bytes, std::nullopt);
}

TEST_F(ControlGroup, Version2) {
  put("proc/self/cgroup", "0::/user/job\n");
  put("sys/fs/cgroup/user/job/cpu.max", "250000 100000\n");
  put("sys/fs/cgroup/user/job/memory.max", "1073741824\n");
  EXPECT_EQ(limits().cpus, 2.5);
  EXPECT_EQ(limits().memory_bytes, 1073741824);
}

TEST_F(ControlGroup, MaxIsNoLimit) {
  put("proc/self/cgroup", "0::/job\n");
  put("sys/fs/cgroup/job/cpu.max", "max 100000\n");
  put("sys/fs/cgroup/job/memory.max", "max\n");
  EXPECT_EQ(limits().cpus, std::nullopt);
  EXPECT_EQ(limits().memory_bytes, std::nullopt);
}

TEST_F(ControlGroup, TheTightestOfTheParentsCounts) {
  put("proc/self/cgroup", "0::/a/b\n");
  put("sys/fs/cgroup/a/b/cpu.max", "800000 100000\n");
  put("sys/fs/cgroup/a/cpu.max", "300000 100000\n");
  put("sys/fs/cgroup/cpu.max", "400000 100000\n");
  put("sys/fs/cgroup/memory.max", "5000\n");
  EXPECT_EQ(limits().cpus, 3.0);
  EXPECT_EQ(limits().memory_bytes, 5000);
}

TEST_F(ControlGroup, Version1) {
  put("proc/self/cgroup",
      "12:memory:/docker/x\n4:cpu,cpuacct:/docker/x\n1:name=systemd:/\n");
  put("sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_quota_us", "150000\n");
  put("sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_period_us", "100000\n");
  put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  put("sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes", "4096\n");
  EXPECT_EQ(limits().cpus, 1.5);
  EXPECT_EQ(limits().memory_bytes, 4096);
}

TEST_F(ControlGroup, BrokenFilesLimitNothing) {
  put("proc/self/cgroup", "x\n:\n0::\n::\n0::/job");
  put("sys/fs/cgroup/job/cpu.max", "100000 0\n");
  put("sys/fs/cgroup/cpu.max", "100000\n");
  put("sys/fs/cgroup/memory.max", "99999999999999999999999\n");
  EXPECT_EQ(limits().cpus, std::nullopt);
  EXPECT_EQ(limits().memory_bytes, std::nullopt);
}

} // namespace
} // namespace cairn::control_group_test
