#include <cairn/generate/beam_search.h>

#include "generate/golden_generation.h"
#include "support/error_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace cairn::generate::beam_search_test {
namespace {

using ::testing::HasSubstr;
using Tokens = std::vector<std::int64_t>;

TEST(BeamSearch, FindsWhatTransformersFinds) {
  const auto model = golden_model();
  for (const bool recompute : {false, true}) {
    for (const auto& row : golden_generation("beam.json")) {
      const Tokens prompt = row.at("prompt");
      BeamSearch search(
          model,
          row.at("num_beams"),
          {.page_tokens = 5, .recompute = recompute});
      BeamOptions options{
          .width = row.at("num_beams"),
          .most_tokens = row.at("max_new_tokens")};
      options.end = model->description().end_token;
      const auto beams = search.after(prompt, options);
      ASSERT_EQ(beams.size(), row.at("ids").size());
      for (std::size_t i = 0; i < beams.size(); ++i) {
        Tokens all = prompt;
        all.insert(all.end(), beams[i].tokens.begin(), beams[i].tokens.end());
        EXPECT_EQ(all, row.at("ids")[i].get<Tokens>());
        EXPECT_NEAR(beams[i].score, row.at("scores")[i].get<double>(), 1e-4);
      }
    }
  }
}

/// The sum of log-probabilities of a continuation.
double sum_of(
    const std::shared_ptr<models::Transformer>& model,
    const Tokens& prompt,
    const Tokens& more) {
  TextBatch batch(model, {});
  TextRequest request{.prompt = prompt, .most_tokens = 1};
  request.prompt.insert(request.prompt.end(), more.begin(), more.end());
  request.of_prompt = true;
  batch.add(request);
  const TextGrowth growth = batch.step().at(0);
  double sum = 0;
  for (std::size_t i = prompt.size() - 1; i < growth.prompt_tokens; ++i) {
    sum += double{growth.tokens[i].log_probability};
  }
  return sum;
}

TEST(BeamSearch, ScoresAreTheSumsOfLogProbabilities) {
  const auto model = golden_model("llama");
  const Tokens prompt{63, 218, 33};
  BeamSearch search(model, 5);
  for (const double penalty : {0.0, 1.0, 2.0}) {
    const auto beams = search.after(
        prompt,
        {.width = 5, .length_penalty = penalty, .most_tokens = 7});
    ASSERT_EQ(beams.size(), 5U);
    for (const Beam& beam : beams) {
      EXPECT_FALSE(beam.finished);
      ASSERT_EQ(beam.tokens.size(), 7U);
      EXPECT_NEAR(
          beam.score,
          sum_of(model, prompt, beam.tokens) / std::pow(7, penalty),
          1e-4);
    }
  }
}

TEST(BeamSearch, OneBeamIsGreedy) {
  const auto model = golden_model();
  BeamSearch search(model, 3);
  const auto beams =
      search.after({63, 218, 33, 184, 481}, {.width = 1, .most_tokens = 6});
  ASSERT_EQ(beams.size(), 1U);
  EXPECT_EQ(beams[0].tokens, (Tokens{67, 1, 1, 1, 1, 1}));
}

TEST(BeamSearch, EndsAtTokensThatEndATextAndWhereThePositionsEnd) {
  const auto model = golden_model();
  BeamSearch search(model, 4);
  BeamOptions options{.width = 4, .most_tokens = 1000};
  options.stops = {1, 67};
  const Tokens prompt{63, 218, 33, 184, 481};
  const auto beams = search.after(prompt, options);
  ASSERT_EQ(beams.size(), 4U);
  EXPECT_TRUE(beams[0].finished);
  for (const Beam& beam : beams) {
    for (const std::int64_t token : beam.tokens) {
      EXPECT_TRUE(token != 1 && token != 67);
    }
  }
  options.stops = {};
  EXPECT_EQ(search.after(prompt, options)[0].tokens.size(), 59U);
}

TEST(BeamSearch, RefusesWhatDoesNotFit) {
  const auto model = golden_model();
  BeamSearch search(model, 2);
  EXPECT_THAT(
      error_text([&] { search.after({1}, {.width = 3}); }),
      HasSubstr("3, where 2 fit"));
  EXPECT_THAT(
      error_text<DataError>([&] { search.after({512}, {.width = 2}); }),
      HasSubstr("out of range"));
  BeamSearch small(model, 4, {.page_tokens = 4, .cache_tokens = 12});
  EXPECT_THAT(
      error_text<DataError>([&] {
        small.after({1, 2, 3}, {.width = 4, .most_tokens = 6});
      }),
      HasSubstr("no room for all beams"));
  EXPECT_EQ(small.after({1}, {.width = 1, .most_tokens = 2}).size(), 1U);
}

} // namespace
} // namespace cairn::generate::beam_search_test
