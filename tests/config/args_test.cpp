#include "support/error_text.h"

#include <cairn/config/config.h>

#include <gtest/gtest.h>

namespace cairn::config::args_test {
namespace {

template <std::size_t n>
Args parse(
    const char* const (&words)[n],
    Args::Others others = Args::Others::refuse) {
  return Args::parse(static_cast<int>(n), words, others);
}

TEST(Args, ReadsItsOwn) {
  const Args args = parse(
      {"prog",
       "--deepspeed",
       "--deepspeed_config",
       "ds.json",
       "--local_rank=2"});
  EXPECT_TRUE(args.deepspeed);
  EXPECT_EQ(args.deepspeed_config, "ds.json");
  EXPECT_EQ(args.local_rank, 2);
}

TEST(Args, Defaults) {
  const Args args = parse({"prog"});
  EXPECT_FALSE(args.deepspeed);
  EXPECT_FALSE(args.deepspeed_config);
  EXPECT_EQ(args.local_rank, -1);
  EXPECT_EQ(Args::parse(0, nullptr).local_rank, -1);
}

TEST(Args, LeavesTheRestToTheProgram) {
  // --lr is a flag of Cairn's own programs, but here it is the program's.
  const Args args = parse(
      {"prog",
       "in.txt",
       "--lr",
       "0.1",
       "--deepspeed",
       "--epochs=3",
       "--",
       "--deepspeed_config"},
      Args::Others::keep);
  EXPECT_TRUE(args.deepspeed);
  EXPECT_FALSE(args.deepspeed_config);
  EXPECT_EQ(
      args.rest,
      (std::vector<std::string>{
          "in.txt",
          "--lr",
          "0.1",
          "--epochs=3",
          "--",
          "--deepspeed_config"}));
}

TEST(Args, RefusesTheRestOtherwise) {
  EXPECT_NE(error_text([] { parse({"prog", "--lr", "0.1"}); }), "");
  EXPECT_EQ(
      error_text([] {
        parse({"prog", "--deepsped"});
      }),
      "--deepsped: unknown flag; did you mean --deepspeed?");
}

TEST(Args, OldNamesWarn) {
  const Args args = parse({"prog", "--deepscale_config", "x"});
  EXPECT_EQ(args.deepspeed_config, "x");
  EXPECT_EQ(
      args.warnings,
      std::vector<std::string>{
          "--deepscale_config is the old name of --deepspeed_config"});
}

} // namespace
} // namespace cairn::config::args_test
