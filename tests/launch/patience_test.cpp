#include "cli/launch/patience.h"
#include "support/temporary_folder.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>

namespace cairn::cli::patience_test {
namespace {

using std::chrono::minutes;

TEST(Patience, IsTheTimeoutOfACommand) {
  EXPECT_EQ(
      timeout_of_command(
          {"pretrain", "gpt", "--distributed-timeout-minutes", "3"}),
      minutes(3));
  EXPECT_EQ(
      timeout_of_command(
          {"probe",
           "--distributed-timeout-minutes",
           "3",
           "--distributed_timeout_minutes=2000000000"}),
      minutes(30 * 24 * 60));
  EXPECT_EQ(timeout_of_command({"pretrain", "gpt"}), std::nullopt);
  EXPECT_EQ(
      timeout_of_command({"pretrain", "--distributed-timeout-minutes"}),
      std::nullopt);
}

TEST(Patience, IsFoundInAFileOfFlags) {
  const testing::TemporaryFolder folder;
  const std::string flags =
      folder.write("flags", "--lr 1\n--distributed-timeout-minutes 4\n");
  EXPECT_EQ(timeout_of_command({"pretrain", "@" + flags}), minutes(4));
  EXPECT_EQ(timeout_of_command({"pretrain", "@/no/such/file"}), std::nullopt);
}

} // namespace
} // namespace cairn::cli::patience_test
