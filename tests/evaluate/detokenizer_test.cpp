#include "evaluate/detokenizer.h"

#include "evaluate/golden_evaluation.h"

#include <gtest/gtest.h>

#include <string>

namespace cairn::evaluate::detokenizer_test {
namespace {

TEST(Detokenizer, WritesWhatMegatronWrites) {
  const auto cases = golden_json("detokenizer.json");
  ASSERT_GT(cases.size(), 400U);
  for (const auto& each : cases) {
    const std::string text = each.at("text");
    EXPECT_EQ(detokenized(text, Detokenizer::wikitext), each.at("wikitext"))
        << text;
    EXPECT_EQ(detokenized(text, Detokenizer::ptb), each.at("ptb")) << text;
    EXPECT_EQ(detokenized(text, Detokenizer::none), text);
  }
}

TEST(Detokenizer, MakesARunningTextOfWikiText) {
  EXPECT_EQ(
      detokenized(
          " = = Career = = \n The 4 @,@ 000 boys ( \" A \" ) won , at 3 @.@ 5 "
          "° "
          "C ; it 's well @-@ known . \n",
          Detokenizer::wikitext),
      " == Career ==\nThe 4,000 boys (\"A\") won, at 3.5°C; it's "
      "well-known.\n");
}

TEST(Detokenizer, TakesTimeInProportionToTheText) {
  // A million openings without an end.
  const std::string openings(1 << 20, '(');
  EXPECT_EQ(detokenized(openings, Detokenizer::wikitext), openings);
}

} // namespace
} // namespace cairn::evaluate::detokenizer_test
