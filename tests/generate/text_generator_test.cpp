#include <cairn/generate/generate.h>

#include "generate/golden_generation.h"
#include "support/error_text.h"

#include <cairn/text/tokenizer.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cairn::generate::text_generator_test {
namespace {

using ::testing::HasSubstr;

/// A tokenizer whose words are ids: "3 1 4". The last one ends a document.
std::shared_ptr<const text::Tokenizer> numbers(
    std::size_t count,
    std::optional<text::TokenId> end = std::nullopt) {
  text::TokenizerOptions options{.type = "NullTokenizer", .vocab_size = count};
  options.null_eod = end;
  return text::load_tokenizer(options);
}

/// A model of that family whose checkpoint names these tokens.
std::shared_ptr<models::Transformer> model_with_tokens(
    const std::string& name,
    std::optional<std::int64_t> begin,
    std::optional<std::int64_t> end) {
  const auto stored = models::open_model(
      std::filesystem::path(CAIRN_GOLDEN_DIR) / "models" / name);
  models::ModelDescription d = stored.description;
  d.begin_token = begin;
  d.end_token = end;
  return models::load_model({stored.format, d, stored.tensors});
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

TEST(TextGenerator, EndsBeforeAStringThatStopsIt) {
  const auto text_with = [](const TextGeneratorOptions& more,
                            std::int64_t most) {
    TextGenerator generator(
        numbers(512),
        golden_model(),
        {.sampling = {.greedy = true}, .most_tokens = most},
        more);
    return generator.after({generator.prompt("63 218 33 184 481")})[0];
  };
  const GeneratedText cut = text_with({.stops = {"9 9", "1 1"}}, 6);
  EXPECT_EQ(cut.text, " 67 "); // 67 1 1 1 1 1
  EXPECT_TRUE(cut.finished);
  EXPECT_EQ(cut.length, 3) << "nothing is generated after it";
  EXPECT_EQ(cut.tokens.size(), 3U);
  EXPECT_EQ(text_with({.stops = {"1 1"}}, 3).text, " 67 ") << "at the very end";
  EXPECT_FALSE(text_with({.stops = {"8"}}, 6).finished);
}

TEST(TextGenerator, SearchesWithBeams) {
  const auto row = golden_generation("beam.json")[1];
  TextGenerator generator(
      numbers(512),
      golden_model(),
      {.most_tokens = row.at("max_new_tokens")},
      {.beam_width = row.at("num_beams")});
  const TextGenerator::Tokens prompt = row.at("prompt");
  TextGenerator::Tokens all = prompt;
  const auto texts = generator.after(
      {prompt},
      [&](std::size_t, const TextGenerator::Tokens& more) {
        all.insert(all.end(), more.begin(), more.end());
      });
  EXPECT_EQ(all, row.at("ids")[0].get<TextGenerator::Tokens>());
  EXPECT_EQ(texts[0].length, 12);
}

TEST(TextGenerator, EndsAndBeginsAtTheEndOfADocument) {
  TextGenerator generator(
      numbers(512, 1),
      model_with_tokens("gpt2", std::nullopt, std::nullopt),
      {.sampling = {.greedy = true}});
  EXPECT_EQ(generator.no_prompt(), TextGenerator::Tokens{1});
  const auto texts = generator.after({generator.prompt("63 218 33 184 481")});
  EXPECT_EQ(texts[0].text, " 67");
  EXPECT_TRUE(texts[0].finished);
}

TEST(TextGenerator, TakesTheTokensThatTheCheckpointNames) {
  const auto tokenizer = numbers(512);
  TextGenerator llama(tokenizer, model_with_tokens("llama", 3, 4), {});
  EXPECT_EQ(llama.no_prompt(), TextGenerator::Tokens{3});
  EXPECT_EQ(llama.prompt("7 8"), (TextGenerator::Tokens{3, 7, 8}));
  EXPECT_EQ(llama.prompt("3 7 8"), (TextGenerator::Tokens{3, 7, 8}));
  EXPECT_EQ(llama.prompt("7 8 4"), (TextGenerator::Tokens{3, 7, 8}))
      << "an end behind it";
  TextGenerator gpt(
      tokenizer,
      model_with_tokens("gpt2", 3, 1),
      {.sampling = {.greedy = true}});
  EXPECT_EQ(gpt.no_prompt(), TextGenerator::Tokens{3});
  const auto prompt = gpt.prompt("63 218 33 184 481");
  EXPECT_EQ(prompt.size(), 5U);
  EXPECT_TRUE(gpt.after({prompt})[0].finished);
  EXPECT_THAT(
      error_text([&] { TextGenerator(tokenizer, golden_model("bert"), {}); }),
      HasSubstr("from left to right (bert)"));
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
