#include "base/internal/utf8.h"

#include <gtest/gtest.h>

namespace cairn::utf8_test {
namespace {

TEST(Utf8, FindsTheFirstInvalidByte) {
  EXPECT_EQ(valid_utf8_end("aé中😀"), 10U);
  EXPECT_EQ(valid_utf8_end("a\xc3"), 1U);             // cut off
  EXPECT_EQ(valid_utf8_end("a\xc0\x80"), 1U);         // overlong
  EXPECT_EQ(valid_utf8_end("\xe0\x80\x80"), 0U);      // overlong
  EXPECT_EQ(valid_utf8_end("\xed\xa0\x80"), 0U);      // surrogate
  EXPECT_EQ(valid_utf8_end("x\xf4\x90\x80\x80"), 1U); // past the last
  EXPECT_EQ(valid_utf8_end("x\x80"), 1U);
  EXPECT_EQ(valid_utf8_end("many plain bytes first: \xff"), 24U);
  EXPECT_EQ(valid_utf8_end("\xff behind it", 1), 11U);
}

TEST(Utf8, ReadsBackEveryCharacterThatItWrites) {
  for (char32_t c = 0; c <= 0x10ffff; ++c) {
    if (c == 0xd800) {
      c = 0xe000; // surrogates are no characters
    }
    std::string text;
    append_utf8(text, c);
    const Utf8Char read = decode_utf8(text.data(), text.data() + text.size());
    ASSERT_EQ(read.code_point, c);
    ASSERT_EQ(read.length, text.size());
    ASSERT_EQ(last_utf8("é" + text).code_point, c);
  }
}

TEST(Utf8, PartsTextAndWhatIsNone) {
  std::string shown;
  for_each_utf8_run(
      "a\xff\xc3z",
      [&](std::string_view valid) { shown += "+" + std::string(valid); },
      [&](std::string_view invalid) {
        shown += "-" + std::to_string(invalid.size());
      });
  EXPECT_EQ(shown, "+a-2+z");
}

TEST(Utf8, FindsWhereACharacterStarts) {
  EXPECT_EQ(character_start("aé中", 2), 1U);
  EXPECT_EQ(character_start("aé中", 5), 3U);
  EXPECT_EQ(character_start("aé中", 9), 6U);
  EXPECT_EQ(character_start("\x80\x80\x80\x80\x80", 4), 4U); // no character
}

TEST(Utf8, MakesTextOfAnything) {
  EXPECT_EQ(well_formed_utf8("aé中"), "aé中");
  EXPECT_EQ(
      well_formed_utf8("a\xff\xc3z\xe4\xb8"),
      "a\ufffd\ufffdz\ufffd\ufffd");
}

TEST(Utf8, FindsACharacterThatLacksItsEnd) {
  const std::string text = "é中\U0001f600";
  const std::vector<std::size_t> starts{0, 0, 2, 2, 2, 5, 5, 5, 5, 9};
  for (std::size_t end = 0; end < starts.size(); ++end) {
    const bool whole = end == 0 || end == 2 || end == 5 || end == 9;
    EXPECT_EQ(unfinished_utf8(text.substr(0, end)), whole ? end : starts[end])
        << end;
  }
  EXPECT_EQ(unfinished_utf8("a\x80\x80\x80"), 4U);
  EXPECT_EQ(unfinished_utf8("\x80\x80\x80\x80"), 4U);
}

} // namespace
} // namespace cairn::utf8_test
