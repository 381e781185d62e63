#include <cairn/generate/text_generator.h>

#include "generate/golden_generation.h"
#include "support/error_text.h"

#include <cairn/text/load_tokenizer.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace cairn::generate::text_generator_test {
namespace {

using ::testing::HasSubstr;

/// Ids as words: "3 1 4". The last one ends a document.
std::shared_ptr<const text::Tokenizer> numbers(
    std::size_t count,
    std::optional<text::TokenId> end = std::nullopt) {
  text::TokenizerOptions options{.type = "NullTokenizer", .vocab_size = count};
  options.null_eod = end;
  return text::load_tokenizer(options);
}

TEST(TextGenerator, GoesFromTextToText) {
  TextGenerator generator(
      numbers(512),
      golden_model(),
      {.sampling = {.greedy = true}, .most_tokens = 6});
  std::string last;
  const auto prompt = generator.prompt("63 218 33 184 481");
  const auto texts = generator.after(
      {prompt},
      [&](std::size_t, const TextGenerator::Tokens& so_far) {
        last = generator.decode(prompt, so_far);
      });
  ASSERT_EQ(texts.size(), 1U);
  EXPECT_EQ(texts[0].text, " 67 1 1 1 1 1");
  EXPECT_EQ(texts[0].text, last);
  EXPECT_EQ(texts[0].length, 6);
  EXPECT_FALSE(texts[0].finished);
}

TEST(TextGenerator, EndsAndBeginsAtTheEndOfADocument) {
  TextGenerator generator(
      numbers(512, 1),
      golden_model(),
      {.sampling = {.greedy = true}});
  EXPECT_EQ(generator.no_prompt(), TextGenerator::Tokens{1});
  const auto texts = generator.after({generator.prompt("63 218 33 184 481")});
  EXPECT_EQ(texts[0].text, " 67");
  EXPECT_TRUE(texts[0].finished);
}

TEST(TextGenerator, ChoosesWhatTheTokenizerHas) {
  TextGenerator generator(numbers(20), golden_model(), {});
  for (const auto& text : generator.after({{7}, {8}})) {
    for (const auto token : generator.prompt(text.text)) {
      EXPECT_LT(token, 21); // and the end of a document
    }
  }
}

TEST(TextGenerator, CountsItsTexts) {
  TextGenerator once(numbers(512), golden_model(), {.most_tokens = 8});
  TextGenerator twice(numbers(512), golden_model(), {.most_tokens = 8});
  const auto both = once.after({{98}, {98}});
  EXPECT_EQ(twice.after({{98}})[0].text, both[0].text);
  EXPECT_EQ(twice.after({{98}})[0].text, both[1].text);
  EXPECT_NE(both[0].text, both[1].text);
  EXPECT_EQ(once.longest(), 64);
}

} // namespace
} // namespace cairn::generate::text_generator_test
