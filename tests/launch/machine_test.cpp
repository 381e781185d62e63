#include "launch/internal/machine.h"
#include "launch/launched.h"

#include <cairn/base/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cairn::launch::machine_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Machine, CountsGpusByTheirDeviceFiles) {
  const testing::TemporaryFolder devices;
  for (const char* name :
       {"nvidia0",
        "nvidia10",
        "nvidia3",
        "nvidiactl",
        "nvidia-uvm",
        "nvidia",
        "null"}) {
    devices.write(name, "");
  }
  EXPECT_THAT(
      find_gpus(devices.path(), std::nullopt),
      ElementsAre("0", "1", "2"));
  EXPECT_THAT(find_gpus(devices.path(), "2, 0"), ElementsAre("2", "0"));
  EXPECT_THAT(
      find_gpus(devices.path(), "GPU-1a,MIG-2b"),
      ElementsAre("GPU-1a", "MIG-2b"));
  EXPECT_THAT(find_gpus(devices.path(), "1,-1,2"), ElementsAre("1"));
  EXPECT_THAT(find_gpus(devices.path(), ""), IsEmpty());
  EXPECT_THAT(find_gpus(devices.path(), "NoDevFiles"), IsEmpty());
}

TEST(Machine, HasNoGpusWithoutDeviceFiles) {
  const testing::TemporaryFolder devices;
  EXPECT_THAT(find_gpus(devices.path(), "0,1"), IsEmpty());
  EXPECT_THAT(find_gpus("/no/such/folder", std::nullopt), IsEmpty());
}

TEST(Machine, HasCores) {
  const auto machine = inspect_machine();
  EXPECT_FALSE(machine.cores.empty());
  EXPECT_GE(machine.threads, 1);
}

TEST(CoreList, HasNumbersAndRanges) {
  EXPECT_THAT(parse_core_list("1,3-5,7"), ElementsAre(1, 3, 4, 5, 7));
  EXPECT_THAT(parse_core_list("4-5,0,5"), ElementsAre(0, 4, 5));
  for (const char* bad :
       {"", ",", "1,", "a", "1-", "-1", "5-3", "1--2", "0-4000000000", "1 2"}) {
    EXPECT_THROW(parse_core_list(bad), ConfigError) << bad;
  }
}

} // namespace
} // namespace cairn::launch::machine_test
