#include "support/command.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <string>

namespace cairn::cli::quickstart_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::Result;
using testing::run;
using testing::TemporaryFolder;

TEST(Quickstart, GoesFromNothingToStories) {
  const TemporaryFolder folder;
  const std::string output = (folder.path() / "first").string();
  const testing::Words words{
      CAIRN_BINARY_DIR "/bin/cairn",
      "quickstart",
      "--minutes",
      "0.2",
      "--output",
      output};
  const Result result = run(words);
  ASSERT_EQ(result.code, 0) << result.out << result.err;
  EXPECT_THAT(
      result.out,
      AllOf(
          HasSubstr("$ cairn data sample-corpus"),
          HasSubstr("$ cairn launch --num_gpus 2 pretrain gpt"),
          HasSubstr("kill -9 of all ranks after iteration"),
          HasSubstr("loss on stories it has not seen: "),
          HasSubstr("5. Stories that it tells\n   $ cairn generate --load "),
          HasSubstr("\n\n   “")));
  EXPECT_TRUE(std::filesystem::exists(output + "/checkpoints/latest"));
  EXPECT_THAT(
      result.out,
      HasSubstr("the run as a page, for a browser: " + output));
  EXPECT_TRUE(std::filesystem::exists(output + "/metrics.html"));

  const Result again = run(words);
  EXPECT_EQ(again.code, 2);
  EXPECT_THAT(again.err, HasSubstr("the folder is there already"));
}

TEST(Quickstart, LeavesNothingRunningAfterCtrlC) {
  const TemporaryFolder folder;
  testing::Command command(
      {CAIRN_BINARY_DIR "/bin/cairn",
       "quickstart",
       "--output",
       (folder.path() / "first").string()});
  command.wait_for("trying out how fast this machine is");
  ::kill(command.pid(), SIGINT);
  EXPECT_EQ(command.finish().code, 128 + SIGINT);
  command.expect_nothing_left();
}

} // namespace
} // namespace cairn::cli::quickstart_test
