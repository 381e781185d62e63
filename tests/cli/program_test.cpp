// The program as a user meets it: real processes, their output and exit codes.

#include "support/command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cairn::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

CommandResult cairn(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), CAIRN_BINARY_DIR "/bin/cairn");
  return run_command(arguments);
}

TEST(Program, WithoutArgumentsShowsItsCommands) {
  const CommandResult result = cairn({});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, HasSubstr("launch"));
  EXPECT_THAT(result.out, HasSubstr("config"));
  EXPECT_THAT(result.out, HasSubstr("info"));
  EXPECT_THAT(result.err, IsEmpty());
}

TEST(Program, UnknownCommandIsRefusedWithTheNearest) {
  const CommandResult result = cairn({"lauch"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(
      result.err,
      "cairn: there is no command \"lauch\"; did you mean \"launch\"?\n");
  EXPECT_THAT(result.out, IsEmpty());
}

TEST(Program, UnknownCommandWithoutANeighbourPointsToHelp) {
  const CommandResult result = cairn({"zzzzzzzzzzzz"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("`cairn --help` lists them"));
}

TEST(Program, InfoComesFromTheLibtorchHalf) {
  const CommandResult result = cairn({"info"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("libtorch     2.11.0"));
  EXPECT_THAT(result.out, HasSubstr("backends     local, gloo"));
  EXPECT_THAT(result.out, HasSubstr("SIMD"));
}

TEST(Program, InfoTakesNoArguments) {
  EXPECT_EQ(cairn({"info", "--everything"}).exit_code, 2);
  EXPECT_EQ(cairn({"info", "--help"}).exit_code, 0);
}

} // namespace
} // namespace cairn::testing
