#include "config/internal/stored_flags.h"

#include "support/error_text.h"
#include "support/temporary_folder.h"

#include <cairn/base/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace cairn::config::stored_flags_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Words = std::vector<std::string>;

const std::string place = "/runs/a";

TEST(StoredFlags, FillInWhatTheCommandLineLeavesOut) {
  const WithStored result = with_stored_flags(
      {"--hidden-size", "32", "--lr", "-1"},
      {{.name = "--num-layers", .values = {"2"}},
       {.name = "--hidden-size", .values = {"16"}},
       {.name = "--rotary-base", .values = {"10000"}},
       {.name = "--num-experts", .values = {"4", "8"}},
       {.name = "--topk", .values = {"1"}, .always = true},
       {.name = "--swiglu"},
       {.name = "--squared-relu", .absent = true}},
      place);
  EXPECT_THAT(
      result.words,
      ElementsAre(
          "--hidden-size",
          "32",
          "--lr",
          "-1",
          "--num-layers=2",
          "--num-experts",
          "4",
          "8",
          "--topk=1",
          "--swiglu"));
  EXPECT_THAT(
      result.taken,
      ElementsAre("--num-layers 2", "--num-experts 4 8", "--swiglu"));
  EXPECT_THAT(result.overruled, IsEmpty());
}

TEST(StoredFlags, WinOverTheCommandLineWhereTheyAreToldTo) {
  const WithStored result = with_stored_flags(
      {"--swiglu",
       "--num-query-groups=4",
       "--normalization",
       "RMSNorm",
       "--rotary_base",
       "1e4",
       "--position-embedding-type",
       "rope"},
      {{.name = "--swiglu", .absent = true, .wins = true},
       {.name = "--num-key-value-heads", .values = {"2"}, .wins = true},
       {.name = "--normalization", .values = {"RMSNorm"}, .wins = true},
       {.name = "--rotary-base", .values = {"10000"}, .wins = true},
       {.name = "--position-embedding-type",
        .values = {"learned_absolute"},
        .wins = true}},
      place);
  EXPECT_THAT(
      result.words,
      ElementsAre(
          "--normalization",
          "RMSNorm",
          "--rotary_base",
          "1e4",
          "--num-key-value-heads=2"));
  EXPECT_THAT(
      result.overruled,
      ElementsAre(
          "--swiglu gives way to the checkpoint's lack of it",
          "--num-query-groups=4 gives way to the checkpoint's "
          "--num-key-value-heads 2",
          "--position-embedding-type rope gives way to the checkpoint's "
          "--position-embedding-type learned_absolute"));
}

TEST(StoredFlags, MeetTheWordsOfAFile) {
  const testing::TemporaryFolder folder;
  folder.write("flags", "--num-layers 4 --swiglu\n");
  const WithStored result = with_stored_flags(
      {"@" + (folder.path() / "flags").string()},
      {{.name = "--num-layers", .values = {"2"}},
       {.name = "--swiglu", .absent = true, .wins = true}},
      place);
  EXPECT_EQ(result.words, (Words{"--num-layers", "4"}));
  EXPECT_EQ(said_flags(result.words).model.num_layers, 4);
}

TEST(StoredFlags, TextsAreNeitherFilesNorFlags) {
  const testing::TemporaryFolder folder;
  const std::string file = folder.write("flags", "--lr 1 --save @x\n");
  const WithStored result = with_stored_flags(
      {"@" + file},
      {{.name = "--vocab-file", .values = {"@" + file}},
       {.name = "--merge-file", .values = {"--swiglu"}},
       {.name = "--tokenizer-model", .values = {"a\nb"}, .wins = true}},
      place);
  const Flags flags = said_flags(result.words);
  EXPECT_EQ(flags.tokenizer.vocab_file, "@" + file);
  EXPECT_EQ(flags.tokenizer.merge_file, "--swiglu");
  EXPECT_EQ(flags.tokenizer.model, "a\nb");
  EXPECT_EQ(flags.checkpointing.save, "@x");
  EXPECT_FALSE(flags.model.swiglu);
  EXPECT_EQ(result.taken.back(), "--tokenizer-model a\\x0ab");
}

TEST(StoredFlags, AreReadOnlyWhereTheyCount) {
  const std::vector<StoredFlag> stored{
      {.name = "--tokenizer-type", .values = {"Rope"}}};
  const Words own{"--tokenizer-type", "NullTokenizer"};
  EXPECT_EQ(with_stored_flags(own, stored, place).words, own);
  EXPECT_THAT(
      error_text<ConfigError>([&] { with_stored_flags({}, stored, place); }),
      HasSubstr("--tokenizer-type: the checkpoint in /runs/a says "
                "--tokenizer-type Rope: "));
}

TEST(StoredFlags, GiveWayToAnotherFlagThatSaysTheSame) {
  const std::vector<StoredFlag> stored{
      {.name = "--seq-length",
       .values = {"16"},
       .also = "--encoder-seq-length"}};
  const Words other{"--encoder-seq-length", "8"};
  EXPECT_EQ(with_stored_flags(other, stored, place).words, other);
  EXPECT_THAT(
      with_stored_flags({}, stored, place).words,
      ElementsAre("--seq-length=16"));
}

} // namespace
} // namespace cairn::config::stored_flags_test
