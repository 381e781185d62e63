#include "generate/golden_generation.h"
#include "support/error_text.h"

#include <cairn/generate/generate.h>
#include <cairn/model/presets.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace cairn::generate::generate_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Tokens = std::vector<std::int64_t>;

TEST(Generate, WritesWhatTransformersWrites) {
  const auto model = golden_model();
  for (const auto& row : golden_generation("greedy.json")) {
    const Tokens prompt = row.at("prompt");
    GenerateOptions options{
        .sampling = {.greedy = true},
        .most_tokens = row.at("max_new_tokens")};
    if (row.contains("eos")) {
      options.end = row.at("eos");
    }
    const auto made = generate(*model, {prompt}, options);
    Tokens all = prompt;
    all.insert(all.end(), made[0].tokens.begin(), made[0].tokens.end());
    if (made[0].finished) {
      all.push_back(*options.end);
    }
    EXPECT_EQ(made[0].finished, row.contains("eos"));
    EXPECT_EQ(all, row.at("ids").get<Tokens>());
  }
}

/// Prompts of several lengths, whose texts end at several lengths.
const std::vector<Tokens> prompts{{98}, {111, 16}, {63, 218, 33, 184, 481}};

std::vector<Tokens> tokens_of(const std::vector<Continuation>& texts) {
  std::vector<Tokens> tokens;
  for (const Continuation& text : texts) {
    tokens.push_back(text.tokens);
  }
  return tokens;
}

TEST(Generate, WritesTheSameWhateverIsBesideIt) {
  for (const char* name : {"gpt2", "llama"}) {
    const auto model = golden_model(name);
    GenerateOptions options{.sampling = {.top_k = 20}, .most_tokens = 20};
    options.end = 1;
    const auto together = tokens_of(generate(*model, prompts, options));
    std::vector<Tokens> alone;
    for (const Tokens& prompt : prompts) {
      alone.push_back(generate(*model, {prompt}, options)[0].tokens);
      ++options.first_text;
    }
    EXPECT_EQ(together, alone) << name;
  }
}

TEST(Generate, OtherSeedsAndNumbersWriteOtherTexts) {
  const auto model = golden_model();
  std::set<Tokens> texts;
  for (const std::uint64_t seed : {1, 2}) {
    GenerateOptions options{.most_tokens = 10};
    options.seed = seed;
    for (const auto& text : generate(*model, {{98}, {98}}, options)) {
      texts.insert(text.tokens);
    }
  }
  EXPECT_EQ(texts.size(), 4U);
}

TEST(Generate, TextsDoNotCompeteForExperts) {
  models::ModelDescription d = model::gpt_description(
      {.layers = 2,
       .hidden = 32,
       .heads = 2,
       .sequence = 32,
       .vocabulary = 64,
       .padded_vocabulary = 64});
  d.experts = model::ExpertsDescription{.counts = {4}, .interval = 1};
  d.experts->min_capacity = 1;
  const auto model = models::make_model(d);
  const std::vector<Tokens> some{{1, 2, 3}, {4}, {5, 6}};
  GenerateOptions options{.most_tokens = 12};
  const auto together = tokens_of(generate(*model, some, options));
  std::vector<Tokens> alone;
  for (const Tokens& prompt : some) {
    alone.push_back(generate(*model, {prompt}, options)[0].tokens);
    ++options.first_text;
  }
  EXPECT_EQ(together, alone);
}

TEST(Generate, EndsWhereItIsToldOrThePositionsEnd) {
  const auto model = golden_model();
  const auto length = [&](const GenerateOptions& options) {
    return generate(*model, {prompts[2]}, options)[0].tokens.size();
  };
  EXPECT_EQ(length({.most_tokens = 7}), 7U);
  EXPECT_EQ(length({.longest = 20}), 15U);
  EXPECT_EQ(length({}), 59U); // 64 positions
  Tokens heard;
  GenerateOptions options{.vocabulary = 4};
  options.most_tokens = 30;
  options.on_token = [&](std::size_t text, std::int64_t token) {
    EXPECT_EQ(text, 0U);
    heard.push_back(token);
  };
  const auto made = generate(*model, {{98}}, options);
  EXPECT_EQ(made[0].tokens, heard);
  EXPECT_LT(*std::ranges::max_element(heard), 4);
}

TEST(Generate, RefusesPromptsWithoutRoomAndOtherModels) {
  const auto model = golden_model();
  EXPECT_THAT(
      error_text<DataError>([&] { generate(*model, {{}}, {}); }),
      HasSubstr("a prompt without a token"));
  EXPECT_THAT(
      error_text<DataError>([&] { generate(*model, {Tokens(64, 1)}, {}); }),
      HasSubstr("64 tokens, and a text has at most 64"));
  EXPECT_THAT(
      error_text<DataError>([&] { generate(*model, {{512}}, {}); }),
      HasSubstr("out of range"));
  EXPECT_THAT(
      error_text([&] { generate(*golden_model("bert"), {{1}}, {}); }),
      HasSubstr("from left to right (bert)"));
  EXPECT_TRUE(generate(*model, {}, {}).empty());
}

TEST(Generate, RefusesOptionsThatSayNothing) {
  const auto model = golden_model();
  const auto refusal = [&](const GenerateOptions& options) {
    return error_text([&] { generate(*model, {{1}}, options); });
  };
  EXPECT_THAT(refusal({.sampling = {.temperature = 0}}), HasSubstr("above 0"));
  EXPECT_THAT(refusal({.sampling = {.top_k = -1}}), HasSubstr("top_k"));
  EXPECT_THAT(refusal({.sampling = {.top_p = 1.5}}), HasSubstr("top_p"));
  EXPECT_THAT(refusal({.most_tokens = 0}), HasSubstr("one token"));
  EXPECT_THAT(refusal({.longest = -1}), HasSubstr("one token"));
}

} // namespace
} // namespace cairn::generate::generate_test
