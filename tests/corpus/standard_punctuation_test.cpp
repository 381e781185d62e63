#include "corpus/clean/standard_punctuation.h"
#include "support/fuzz.h"

#include <gtest/gtest.h>

#include <string>

namespace cairn::corpus::standard_punctuation_test {
namespace {

TEST(StandardPunctuation, QuotationMarks) {
  EXPECT_EQ(
      standard_punctuation("“a” „b“ «c» ‘d’ ‚e‘ ‹f› it’s `g´"),
      "\"a\" \"b\" \"c\" 'd' 'e' 'f' it's 'g'");
  EXPECT_EQ(standard_punctuation("``a'' ’’b'' '''"), "\"a\" \"b\" \"'");
  // French puts no-break blanks inside, German turns the marks round.
  EXPECT_EQ(
      standard_punctuation("il dit «\u00a0oui\u202f» ici"),
      "il dit \"oui\" ici");
  EXPECT_EQ(standard_punctuation("sagt »ja« dazu"), "sagt \"ja\" dazu");
}

TEST(StandardPunctuation, DashesAndDots) {
  EXPECT_EQ(
      standard_punctuation("1914–1918, well‑known, −5"),
      "1914-1918, well-known, -5");
  EXPECT_EQ(
      standard_punctuation("a—b — c ―― d\n— e\n  — f\ng —\nh"),
      "a - b - c - d\n- e\n  - f\ng -\nh");
  EXPECT_EQ(standard_punctuation("so… and …so"), "so... and ...so");
}

TEST(StandardPunctuation, Blanks) {
  EXPECT_EQ(standard_punctuation("1\u00a0000\u2009km\u202f!"), "1 000 km!");
  EXPECT_EQ(
      standard_punctuation("a , b ; c : d ?! e . ( f )\n"),
      "a, b; c: d?! e. (f)\n");
  // A mark that does not end a word keeps its blank, and lines their
  // indentation.
  for (const std::string same :
       {"a .NET b", "wait ... and", "a :-) b", "sad :( so", "  ) x", " . x"}) {
    EXPECT_EQ(standard_punctuation(same), same);
  }
}

TEST(StandardPunctuation, EverythingElseStays) {
  for (const std::string same :
       {"Plain text, with (all) of \"it\": it's fine - really...\n\tYes!",
        "東京は、「日本」の首都。",
        "naïve café 5′ № § €"}) {
    EXPECT_EQ(standard_punctuation(same), same);
  }
  EXPECT_EQ(standard_punctuation("a\xff"), "a\xEF\xBF\xBD");
}

TEST(StandardPunctuation, FuzzedTextsAreStandardAfterOneRound) {
  testing::fuzz(
      {.seeds = {"“a” — b ( c ) , d … «\u00a0e\u00a0» ''f``", "'x ' . ..,"},
       .pieces =
           {" ",
            "\u00a0",
            "—",
            "'",
            "`",
            "’",
            ".",
            ",",
            ":",
            "(",
            ")",
            "…",
            "«",
            "»",
            "-",
            "”",
            "\n",
            "a",
            "\xe2"},
       .runs = 20000},
      [](const std::string& input) {
        const std::string once = standard_punctuation(input);
        EXPECT_EQ(standard_punctuation(once), once);
      });
}

} // namespace
} // namespace cairn::corpus::standard_punctuation_test
