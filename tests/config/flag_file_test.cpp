#include "config/internal/flag_file.h"
#include "support/error_text.h"
#include "support/temporary_folder.h"

#include <cairn/base/error.h>
#include <cairn/config/config.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace cairn::config::flag_file_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

TEST(FlagFile, ItsWordsStandInItsPlace) {
  const TemporaryFolder folder;
  const std::string file = folder.write(
      "flags",
      "# a comment\n--lr 1e-3 # another\n\n--data-path 'my data' "
      "\"it's\"\n--save=a'b c'#d\t@x\r\n");
  EXPECT_THAT(
      with_flag_files({"--fp16", "@" + file, "--lr", "2"}),
      ElementsAre(
          "--fp16",
          "--lr",
          "1e-3",
          "--data-path",
          "my data",
          "it's",
          "--save=ab c#d",
          "@x",
          "--lr",
          "2"));
  folder.write("flags", "");
  EXPECT_THAT(with_flag_files({"@" + file, "x"}), ElementsAre("x"));
}

TEST(FlagFile, TwoAtSignsStandForOne) {
  const std::vector<std::string> words{"--save", "@x", "@@y", "a@b", "@"};
  EXPECT_THAT(
      written_out(words),
      ElementsAre("--save", "@@x", "@@@y", "a@b", "@@"));
  EXPECT_EQ(with_flag_files(written_out(words)), words);
  const Config config = Config::load({.flags = {"--save", "@@x"}});
  EXPECT_EQ(config.flags.checkpointing.save, "@x");
}

TEST(FlagFile, WhatIsWrongIsNamedWithItsPlace) {
  const TemporaryFolder folder;
  const std::string file =
      folder.write("flags", "--lr 1\n--save 'never\nclosed\n");
  EXPECT_EQ(
      error_text([&] { with_flag_files({"@" + file}); }),
      file + ":2: a quote ' without its end");
  folder.write("flags", std::string_view("--lr\n1\0", 7));
  EXPECT_THAT(
      error_text([&] { with_flag_files({"@" + file}); }),
      HasSubstr(file + ":2: a control character"));
  EXPECT_THAT(
      error_text([] { with_flag_files({"@/none/at/all"}); }),
      HasSubstr("/none/at/all"));
  EXPECT_THROW(with_flag_files({"@/none/at/all"}), ConfigError);
  EXPECT_THROW(with_flag_files({"@" + folder.path().string()}), ConfigError);
  EXPECT_THAT(
      error_text([] { with_flag_files({"@"}); }),
      HasSubstr("no file is named"));
}

TEST(FlagFile, IsReadWithTheConfiguration) {
  const TemporaryFolder folder;
  const std::string file =
      folder.write("flags", "--lr 1e-3\n--micro-batch-size 4\n");
  const Config config =
      Config::load({.flags = {"@" + file, "--micro-batch-size", "2"}});
  EXPECT_EQ(config.flags.learning_rate.lr, 1e-3);
  EXPECT_EQ(config.deepspeed.batch->micro, 2);
  EXPECT_THAT(config.warnings, ElementsAre(HasSubstr("the last one counts")));
}

} // namespace
} // namespace cairn::config::flag_file_test
