// T5 against transformers: tools/golden/t5_generation.py.

#include "generate/golden_generation.h"
#include "support/error_text.h"

#include <ATen/Functions.h>
#include <cairn/generate/beam_search.h>
#include <cairn/generate/generate.h>
#include <cairn/generate/text_batch.h>
#include <cairn/model/presets.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace cairn::generate::t5_test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using Tokens = std::vector<std::int64_t>;

constexpr const char* names[] = {"t5_relu", "t5_gated_gelu"};

std::optional<std::int64_t> end_of(const json& row) {
  return row.at("end").is_null()
      ? std::nullopt
      : std::optional(row.at("end").get<std::int64_t>());
}

TEST(T5, WritesWhatTransformersWrites) {
  const json golden = golden_generation("t5.json");
  for (const char* name : names) {
    const auto model = golden_model(name);
    for (const TextBatchOptions& batch : std::vector<TextBatchOptions>{
             {},
             {.most_texts = 3, .page_tokens = 5}}) {
      TextBatch texts(model, batch);
      std::vector<Tokens> written(golden.at(name).at("greedy").size());
      for (const auto& row : golden.at(name).at("greedy")) {
        TextRequest request{
            .prompt = {0},
            .source = row.at("source"),
            .sampling = {.greedy = true},
            .most_tokens = 24};
        request.end = end_of(row);
        texts.add(request);
      }
      while (!texts.empty()) {
        for (const TextGrowth& growth : texts.step()) {
          for (const ScoredToken& token : growth.tokens) {
            written[growth.text].push_back(token.id);
          }
        }
      }
      for (std::size_t i = 0; i < written.size(); ++i) {
        EXPECT_EQ(
            written[i],
            golden.at(name).at("greedy")[i].at("ids").get<Tokens>())
            << name << " " << i;
      }
    }
  }
}

TEST(T5, HasTheProbabilitiesOfTransformers) {
  const json golden = golden_generation("t5.json");
  for (const char* name : names) {
    const auto model = golden_model(name);
    for (const auto& row : golden.at(name).at("log_probs")) {
      const std::vector<double> expected = row.at("log_probs");
      TextRequest request{
          .prompt = {0},
          .source = row.at("source"),
          .most_tokens = 1};
      const Tokens ids = row.at("ids");
      request.prompt.insert(request.prompt.end(), ids.begin(), ids.end());
      request.of_prompt = true;
      TextBatch batch(model, {.step_tokens = 7});
      batch.add(request);
      std::vector<ScoredToken> scores;
      while (!batch.empty()) {
        for (const TextGrowth& growth : batch.step()) {
          scores.insert(
              scores.end(),
              growth.tokens.begin(),
              growth.tokens.begin() +
                  static_cast<std::ptrdiff_t>(growth.prompt_tokens));
        }
      }
      ASSERT_EQ(scores.size(), expected.size());
      for (std::size_t i = 0; i < scores.size(); ++i) {
        EXPECT_EQ(scores[i].id, ids[i]);
        EXPECT_NEAR(scores[i].log_probability, expected[i], 2e-5);
      }
    }
  }
}

TEST(T5, FindsTheBeamsOfTransformers) {
  const json golden = golden_generation("t5.json");
  for (const char* name : names) {
    const auto model = golden_model(name);
    for (const auto& row : golden.at(name).at("beams")) {
      BeamOptions options{
          .width = row.at("num_beams"),
          .most_tokens = 8,
          .source = row.at("source")};
      options.end = end_of(row);
      BeamSearch search(model, options.width, {.page_tokens = 3});
      const auto beams = search.after({0}, options);
      ASSERT_EQ(beams.size(), row.at("ids").size());
      for (std::size_t i = 0; i < beams.size(); ++i) {
        Tokens expected = row.at("ids")[i];
        const auto end = options.end ? std::ranges::find(expected, *options.end)
                                     : expected.end();
        expected.erase(end, expected.end());
        EXPECT_EQ(beams[i].tokens, expected);
        EXPECT_NEAR(beams[i].score, row.at("scores")[i].get<double>(), 1e-4);
      }
    }
  }
}

/// The texts of requests, each alone or all together with little memory.
std::map<std::uint64_t, std::vector<float>> scores_of(
    const std::shared_ptr<models::Transformer>& model,
    bool together) {
  std::mt19937 random(5);
  std::map<std::uint64_t, std::vector<float>> all;
  TextBatch shared(
      model,
      {.most_texts = 4, .cache_tokens = 60, .step_tokens = 3});
  const auto run = [&](TextBatch& batch, std::uint64_t first) {
    while (!batch.empty()) {
      for (const TextGrowth& growth : batch.step()) {
        for (const ScoredToken& token : growth.tokens) {
          all[first + growth.text].push_back(token.log_probability);
          all[first + growth.text].push_back(static_cast<float>(token.id));
        }
      }
    }
  };
  for (std::uint64_t i = 0; i < 9; ++i) {
    TextRequest request{.prompt = {0}, .most_tokens = 25};
    for (auto left = 1 + random() % 30; left > 0; --left) {
      request.source.push_back(static_cast<std::int64_t>(random() % 64));
    }
    request.sampling.top_k = 20;
    request.number = i;
    if (together) {
      shared.add(request);
      shared.step();
      continue;
    }
    TextBatch alone(model, {});
    alone.add(request);
    run(alone, i);
  }
  run(shared, 0);
  return all;
}

TEST(T5, TextsDoNotDependOnWhoIsBesideThem) {
  // Megatron's T5 has learned positions and a bias at the head.
  models::ModelDescription megatron = model::t5_description(
      {.layers = 2,
       .hidden = 32,
       .heads = 2,
       .sequence = 48,
       .vocabulary = 64,
       .padded_vocabulary = 64});
  megatron.decoder_layers = 3;
  models::ModelOptions wild;
  wild.initial_std = 0.3;
  for (const auto& model :
       {golden_model("t5_relu"), models::make_model(megatron, wild)}) {
    const auto alone = scores_of(model, false);
    auto together = scores_of(model, true);
    ASSERT_EQ(alone.size(), 9U);
    for (const auto& [text, scores] : alone) {
      // The shared batch's first growths came while texts were added.
      const auto& rest = together[text];
      ASSERT_LE(rest.size(), scores.size());
      EXPECT_TRUE(std::equal(rest.rbegin(), rest.rend(), scores.rbegin()))
          << text;
    }
  }
}

/// Holds the probabilities of a text against those of the whole model.
void expect_those_of_whole_texts(const models::ModelDescription& d) {
  models::ModelOptions wild;
  wild.initial_std = 0.3;
  const auto model = models::make_model(d, wild);
  model->eval();
  const Tokens source{5, 17, 3, 60, 8};
  const Tokens ids{1, 9, 33, 2, 40, 7};
  TextRequest request{.prompt = ids, .source = source, .most_tokens = 1};
  request.of_prompt = true;
  TextBatch batch(model, {});
  batch.add(request);
  const TextGrowth growth = batch.step().at(0);
  const at::Tensor logits =
      model
          ->forward(
              {.tokens = at::tensor(source).unsqueeze(0),
               .decoder_tokens = at::tensor(ids).unsqueeze(0)})
          .logits.log_softmax(-1);
  ASSERT_EQ(growth.prompt_tokens, ids.size() - 1);
  for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
    EXPECT_NEAR(
        growth.tokens[i].log_probability,
        logits[0][static_cast<std::int64_t>(i)][ids[i + 1]].item<float>(),
        1e-4);
  }
}

TEST(T5, WholeTextsHaveTheSameProbabilities) {
  models::ModelDescription d = model::t5_description(
      {.layers = 2,
       .hidden = 32,
       .heads = 2,
       .sequence = 48,
       .vocabulary = 61,
       .padded_vocabulary = 64});
  expect_those_of_whole_texts(d);
  for (const bool residual : {false, true}) {
    d.experts = model::ExpertsDescription{
        .counts = {4},
        .interval = 2,
        .top_k = 2,
        .residual = residual,
        .drop_tokens = false};
    expect_those_of_whole_texts(d);
  }
}

TEST(T5, TextsWaitUntilTheirSourcesHaveRoom) {
  const auto model = golden_model("t5_relu");
  // Four pages for texts, and four for sources.
  TextBatch batch(model, {.page_tokens = 16, .cache_tokens = 64});
  EXPECT_EQ(batch.longest_source(), 64);
  EXPECT_THAT(
      error_text<DataError>(
          [&] { batch.add({.prompt = {0}, .source = Tokens(65, 7)}); }),
      HasSubstr("(65 tokens, room for 64)"));
  std::map<std::uint64_t, Tokens> together;
  const auto request = [](std::int64_t i) {
    return TextRequest{
        .prompt = {0},
        .source = Tokens(40, 7 + i), // three pages
        .sampling = {.greedy = true},
        .most_tokens = 6};
  };
  for (std::int64_t i = 0; i < 3; ++i) {
    batch.add(request(i));
  }
  while (!batch.empty()) {
    const auto growths = batch.step();
    EXPECT_LE(growths.size(), 1U) << "no two sources have room";
    for (const TextGrowth& growth : growths) {
      for (const ScoredToken& token : growth.tokens) {
        together[growth.text].push_back(token.id);
      }
    }
  }
  ASSERT_EQ(together.size(), 3U);
  for (std::int64_t i = 0; i < 3; ++i) {
    TextBatch alone(model, {});
    alone.add(request(i));
    Tokens expected;
    while (!alone.empty()) {
      for (const TextGrowth& growth : alone.step()) {
        for (const ScoredToken& token : growth.tokens) {
          expected.push_back(token.id);
        }
      }
    }
    EXPECT_EQ(together[static_cast<std::uint64_t>(i)], expected);
  }
}

TEST(T5, NarrowWeights) {
  const auto model = golden_model("t5_gated_gelu");
  const Tokens source{5, 17, 3};
  for (const WeightType type : {WeightType::bf16, WeightType::int8}) {
    TextBatchOptions options;
    options.weights = type;
    TextBatch narrow(model, options);
    TextBatch wide(model, {});
    for (TextBatch* batch : {&narrow, &wide}) {
      batch->add(
          {.prompt = {0}, .source = source, .sampling = {.greedy = true}});
    }
    EXPECT_NEAR(
        narrow.step().at(0).tokens.at(0).log_probability,
        wide.step().at(0).tokens.at(0).log_probability,
        0.1);
  }
}

TEST(T5, RefusesWhatCannotBe) {
  const auto model = golden_model("t5_relu");
  TextBatch batch(model, {});
  EXPECT_THAT(
      error_text<DataError>([&] { batch.add({.prompt = {0}}); }),
      HasSubstr("without a token"));
  EXPECT_THAT(
      error_text<DataError>(
          [&] { batch.add({.prompt = {0}, .source = {600}}); }),
      HasSubstr("out of range"));
  EXPECT_THAT(
      error_text([&] { TextBatch(model, {.recompute = true}); }),
      HasSubstr("--recompute"));
  TextBatch gpt(golden_model(), {});
  EXPECT_THAT(
      error_text<DataError>([&] { gpt.add({.prompt = {1}, .source = {2}}); }),
      HasSubstr("no encoder"));
}

} // namespace
} // namespace cairn::generate::t5_test
