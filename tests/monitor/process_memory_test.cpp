#include "monitor/internal/process_memory.h"
#include "support/temporary_folder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace cairn::monitor::process_memory_test {
namespace {

using cairn::testing::TemporaryFolder;

TEST(ProcessMemory, IsReadFromProc) {
  const TemporaryFolder root;
  std::filesystem::create_directories(root / "proc/self");
  std::filesystem::create_directories(root / "sys/fs/cgroup/job");
  root.write("proc/meminfo", "MemTotal:       24643328 kB\nMemFree: 1 kB\n");
  root.write(
      "proc/self/status",
      "Name:\tcairn\nVmHWM:\t    3400 kB\nVmRSS:\t    1200 kB\n");
  root.write(
      "proc/self/smaps_rollup",
      "aaaa-bbbb ---p 00000000 00:00 0 [rollup]\n"
      "Rss:     1200 kB\nPss:      700 kB\nPss_Dirty: 5 kB\n"
      "Private_Clean:  100 kB\nPrivate_Dirty:  500 kB\n");
  root.write("proc/self/cgroup", "0::/job\n");
  root.write("sys/fs/cgroup/job/memory.max", "8000000\n");
  const auto memory = ProcessMemory::read(root.path());
  EXPECT_EQ(memory.resident, 1200U << 10);
  EXPECT_EQ(memory.peak_resident, 3400U << 10);
  EXPECT_EQ(memory.proportional, 700U << 10);
  EXPECT_EQ(memory.own, 600U << 10);
  EXPECT_EQ(memory.limit, 8'000'000U);
  EXPECT_EQ(to_string(memory), "1.23 MB resident (peak 3.48 MB) of 8.00 MB");
}

TEST(ProcessMemory, AnonymousPagesAreThoseOfNoFile) {
  const TemporaryFolder root;
  std::filesystem::create_directories(root / "proc/self");
  root.write("proc/self/statm", "9000 500 100 20 0 300 0\n");
  EXPECT_EQ(
      anonymous_resident(root.path()),
      400U * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)));
  root.write("proc/self/statm", "no numbers");
  EXPECT_EQ(anonymous_resident(root.path()), 0U);
  EXPECT_GT(anonymous_resident(), 0U);
}

TEST(ProcessMemory, WithoutALimitTheMachineIsTheLimit) {
  const TemporaryFolder root;
  std::filesystem::create_directories(root / "proc/self");
  root.write("proc/meminfo", "MemTotal:       1000 kB\n");
  root.write("proc/self/status", "VmRSS:\tnonsense\nVmHWM:");
  const auto memory = ProcessMemory::read(root.path());
  EXPECT_EQ(memory.limit, 1000U << 10);
  EXPECT_EQ(memory.resident, 0U);
  EXPECT_EQ(memory.proportional, std::nullopt);
  EXPECT_EQ(memory.own, std::nullopt);
}

TEST(ProcessMemory, SeesWhatIsTaken) {
  const auto before = ProcessMemory::read();
  constexpr std::size_t size = 64 << 20;
  const std::vector<char> block(size, 1);
  const auto after = ProcessMemory::read();
  EXPECT_GE(after.resident, before.resident + size * 9 / 10);
  EXPECT_GE(after.peak_resident, after.resident);
  EXPECT_GE(after.limit, after.resident);
  if (after.own) {
    EXPECT_GE(*after.own, size * 9 / 10);
    EXPECT_GE(*after.proportional, *after.own);
  }
}

} // namespace
} // namespace cairn::monitor::process_memory_test
