#include <cairn/data/wikitext.h>

#include "support/fuzz.h"
#include "support/temporary_folder.h"

#include <cairn/base/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace cairn::data::wikitext_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

const std::string sample =
    " \n = Robert Boulter = \n \n"
    " Robert <unk> is an English film , television and theatre actor . \n"
    " \n = = Career = = \n \n = = = 2000 – 2005 = = = \n \n"
    " In 2000 @-@ 2001 x = 2 = y . \n";

TEST(WikiText, LinesWithoutBlankOnes) {
  EXPECT_THAT(
      wikitext_lines(sample, "wiki.train.tokens"),
      ElementsAre(
          " = Robert Boulter = ",
          " Robert <unk> is an English film , television and theatre actor . ",
          " = = Career = = ",
          " = = = 2000 – 2005 = = = ",
          " In 2000 @-@ 2001 x = 2 = y . "));
  EXPECT_THAT(
      wikitext_lines(sample, "wiki.train.tokens", {.headings = false}),
      ElementsAre(
          " Robert <unk> is an English film , television and theatre actor . ",
          " In 2000 @-@ 2001 x = 2 = y . "));
}

TEST(WikiText, EndsOfLines) {
  EXPECT_THAT(wikitext_lines("", "f"), IsEmpty());
  EXPECT_THAT(wikitext_lines("\n \r\n\n", "f"), IsEmpty());
  EXPECT_THAT(wikitext_lines("a\r\n\r\nb", "f"), ElementsAre("a", "b"));
}

TEST(WikiText, Headings) {
  EXPECT_EQ(wikitext_heading_level(" = Title = "), 1);
  EXPECT_EQ(wikitext_heading_level(" = = Section = = "), 2);
  EXPECT_EQ(wikitext_heading_level(" = = = a = b = = = "), 3);
  EXPECT_EQ(wikitext_heading_level(" text = more "), 0);
  EXPECT_EQ(wikitext_heading_level(" = one side"), 0);
  EXPECT_EQ(wikitext_heading_level(" = = "), 0);
  EXPECT_EQ(wikitext_heading_level("="), 0);
  EXPECT_EQ(wikitext_heading_level(""), 0);
}

TEST(WikiText, Files) {
  const cairn::testing::TemporaryFolder folder;
  const WikiText text(folder.write("wiki.test.tokens", sample));
  EXPECT_EQ(text.lines().size(), 5);
  EXPECT_EQ(text.lines().back(), " In 2000 @-@ 2001 x = 2 = y . ");
  EXPECT_THAT(WikiText(folder.write("empty", "")).lines(), IsEmpty());
  EXPECT_THROW(WikiText(folder / "missing"), DataError);
}

TEST(WikiText, WhatIsNotTextIsAnErrorWithItsLine) {
  EXPECT_THAT(
      [] { wikitext_lines("good\n\nPK\x03\x04\xff\xfe\n", "wiki.zip"); },
      ThrowsMessage<DataError>(HasSubstr("wiki.zip:3: not UTF-8")));
}

TEST(WikiText, Fuzz) {
  const int accepted = cairn::testing::fuzz(
      {.seeds = {sample, "a\n\nb\r\n"},
       .pieces = {"\n", "\r\n", " = ", "=", " ", "\xc3", "\xc3\xa4", "\0"}},
      [](const std::string& text) {
        for (const std::string_view line : wikitext_lines(text, "fuzz")) {
          ASSERT_FALSE(line.empty());
          ASSERT_EQ(line.find('\n'), std::string_view::npos);
          ASSERT_GE(line.data(), text.data());
          ASSERT_LE(line.data() + line.size(), text.data() + text.size());
        }
      });
  EXPECT_GT(accepted, 100);
}

} // namespace
} // namespace cairn::data::wikitext_test
