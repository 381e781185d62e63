#include "text/schemes/bpe/gpt2_splitter.h"
#include "text/schemes/bpe/regex_splitter.h"

#include <gtest/gtest.h>
#include <unicode/uchar.h>

#include <random>
#include <string>
#include <vector>

namespace cairn::text::gpt2_splitter_test {
namespace {

using Pieces = std::vector<std::string>;

Pieces by_scanner(const Gpt2Splitter& splitter, const std::string& text) {
  Pieces pieces;
  const char* end = text.data() + text.size();
  for (const char* at = text.data(); at != end;) {
    const char* next = splitter.next(at, end);
    pieces.emplace_back(at, next);
    at = next;
  }
  return pieces;
}

/// Appends any code point, the interesting ones often.
void append_random(std::string& text, std::mt19937& random) {
  static const std::vector<std::string> often{
      " ",      "  ",     "\n",         "\t",     "'",      "'s",     "'re",
      "'ll",    "'v",     "a",          "Zq",     "0",      "99",     ".",
      "!?",     "\u00a0", "\u3000",     "\u180e", "\u0085", "\u00e9", "e\u0301",
      "\u0663", "\u4e2d", "\U0001f600", "\u200b", "\u2028", "_"};
  if (random() % 3 != 0) {
    text += often[random() % often.size()];
    return;
  }
  const auto c =
      static_cast<char32_t>(random() % (random() % 2 == 0 ? 0x3100 : 0x110000));
  // ICU and PCRE2 may know different versions of Unicode, but both know this.
  UVersionInfo age{};
  u_charAge(static_cast<UChar32>(c), age);
  if (age[0] > 0 && age[0] <= 13 && (c < 0xd800 || c > 0xdfff)) {
    append_utf8(text, c);
  }
}

TEST(Gpt2Splitter, CutsAsThePatternDoes) {
  const Gpt2Splitter splitter;
  const RegexSplitter regex(
      R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|)"
      R"(\s+(?!\S)|\s+)",
      RegexSplitter::Keep::all,
      "GPT-2's pattern");
  const RegexScratch scratch;
  std::mt19937 random(5);
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (auto left = random() % 24; left > 0; --left) {
      append_random(text, random);
    }
    Pieces expected;
    regex.split(text, scratch, [&](std::string_view piece) {
      expected.emplace_back(piece);
    });
    ASSERT_EQ(by_scanner(splitter, text), expected) << text;
  }
}

TEST(Gpt2Splitter, PutsBrokenBytesWithPunctuation) {
  const Gpt2Splitter splitter;
  EXPECT_EQ(
      by_scanner(splitter, "ab\xff\xfe! \x80z"),
      (Pieces{"ab", "\xff\xfe!", " \x80", "z"}));
}

TEST(RegexSplitter, KeepsWhatItIsTold) {
  const RegexScratch scratch;
  const auto cut = [&](RegexSplitter::Keep keep) {
    Pieces pieces;
    RegexSplitter("[0-9]+", keep, "")
        .split("ab12c3", scratch, [&](std::string_view piece) {
          pieces.emplace_back(piece);
        });
    return pieces;
  };
  EXPECT_EQ(cut(RegexSplitter::Keep::all), (Pieces{"ab", "12", "c", "3"}));
  EXPECT_EQ(cut(RegexSplitter::Keep::matches), (Pieces{"12", "3"}));
  EXPECT_EQ(cut(RegexSplitter::Keep::gaps), (Pieces{"ab", "c"}));
}

} // namespace
} // namespace cairn::text::gpt2_splitter_test
