// The program as a user meets it: real processes, their output and exit codes.

#include "support/command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cairn::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

Result cairn(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), CAIRN_BINARY_DIR "/bin/cairn");
  return run(arguments);
}

TEST(Program, WithoutArgumentsShowsItsCommands) {
  const Result result = cairn({});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, HasSubstr("launch"));
  EXPECT_THAT(result.out, HasSubstr("config"));
  EXPECT_THAT(result.out, HasSubstr("info"));
  EXPECT_THAT(result.err, IsEmpty());
}

TEST(Program, UnknownCommandIsRefusedWithTheNearest) {
  const Result result = cairn({"lauch"});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(
      result.err,
      "cairn: there is no command \"lauch\"; did you mean \"launch\"?\n");
  EXPECT_THAT(result.out, IsEmpty());
}

TEST(Program, UnknownCommandWithoutANeighbourPointsToHelp) {
  const Result result = cairn({"zzzzzzzzzzzz"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("`cairn --help` lists them"));
}

TEST(Program, InfoComesFromTheLibtorchHalf) {
  const Result result = cairn({"info"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("libtorch     2.11.0"));
  EXPECT_THAT(result.out, HasSubstr("backends     local, gloo"));
  EXPECT_THAT(result.out, HasSubstr("SIMD"));
}

TEST(Program, InfoTakesNoArguments) {
  EXPECT_EQ(cairn({"info", "--everything"}).code, 2);
  EXPECT_EQ(cairn({"info", "--help"}).code, 0);
}

} // namespace
} // namespace cairn::testing
