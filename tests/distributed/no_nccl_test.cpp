#include <cairn/base/error.h>
#include <cairn/distributed/init_distributed.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cairn::distributed::no_nccl_test {
namespace {

using ::testing::HasSubstr;

TEST(NoNccl, SaysHowToBuildIt) {
  InitOptions options;
  options.backend = BackendChoice::nccl;
  try {
    init_distributed(options);
    FAIL() << "not refused";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("-DCAIRN_CUDA=ON"));
  }
}

TEST(NoNccl, EveryDeviceIsTheCpu) {
  EXPECT_EQ(device_name(0), "cpu");
  EXPECT_EQ(init_distributed().device_name(), "cpu");
}

} // namespace
} // namespace cairn::distributed::no_nccl_test
