#include "generate/choose_token.h"
#include "generate/golden_generation.h"
#include "support/error_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

namespace cairn::generate::choose_token_test {
namespace {

using ::testing::HasSubstr;

std::vector<float> logits_named(const std::string& name) {
  const auto all = golden_generation("logits.json");
  std::vector<float> logits;
  for (const auto& value : all.at(name)) {
    logits.push_back(value.is_string() ? -INFINITY : value.get<float>());
  }
  return logits;
}

/// Probabilities by id, without ids that have none.
std::map<std::int64_t, double> probabilities(const Candidates& kept) {
  std::map<std::int64_t, double> result;
  double before = 0;
  for (std::size_t i = 0; i < kept.ids.size(); ++i) {
    if (kept.sums[i] > before) {
      result[kept.ids[i]] = (kept.sums[i] - before) / kept.sums.back();
    }
    before = kept.sums[i];
  }
  return result;
}

TEST(ChooseToken, KeepsWhatMegatronAndTransformersKeep) {
  int of_megatron = 0;
  int of_both_filters = 0;
  for (const auto& row : golden_generation("filters.json")) {
    const Sampling sampling{
        .temperature = row.at("temperature"),
        .top_k = row.at("top_k"),
        .top_p = row.at("top_p")};
    // Megatron drops by rounding alone if there is no filter at top_p 1.
    const bool megatron = row.contains("megatron") && sampling.top_p < 1;
    const auto& wanted = row.at(megatron ? "megatron" : "hf");
    of_megatron += megatron ? 1 : 0;
    of_both_filters += sampling.top_k > 0 && sampling.top_p > 0 ? 1 : 0;
    const auto had =
        probabilities(candidates(logits_named(row.at("logits")), sampling));
    std::map<std::int64_t, double> theirs;
    for (std::size_t i = 0; i < wanted.at("kept").size(); ++i) {
      if (wanted.at("probs")[i] > 0) {
        theirs[wanted.at("kept")[i]] = wanted.at("probs")[i];
      }
    }
    ASSERT_EQ(had.size(), theirs.size()) << row.dump().substr(0, 80);
    const std::string name = row.at("logits");
    if (!megatron && (name == "flat" || name == "ties")) {
      continue; // transformers keeps the last of equal ones
    }
    for (const auto& [id, probability] : theirs) {
      ASSERT_TRUE(had.contains(id)) << row.dump().substr(0, 80);
      EXPECT_NEAR(had.at(id), probability, 1e-6) << row.dump().substr(0, 80);
    }
  }
  EXPECT_GT(of_megatron, 80);
  EXPECT_GT(of_both_filters, 5);
}

TEST(ChooseToken, DrawsByProbability) {
  const std::vector<float> logits{0, std::log(3.0F), -INFINITY};
  EXPECT_EQ(choose_token(logits, {}, 0), 0);
  EXPECT_EQ(choose_token(logits, {}, 0.249), 0);
  EXPECT_EQ(choose_token(logits, {}, 0.251), 1);
  EXPECT_EQ(choose_token(logits, {}, std::nextafter(1.0, 0.0)), 1);
  // 1 to 9 once the temperature is a half
  EXPECT_EQ(choose_token(logits, {.temperature = 0.5}, 0.099), 0);
  EXPECT_EQ(choose_token(logits, {.temperature = 0.5}, 0.101), 1);
  EXPECT_EQ(choose_token(logits, {.temperature = 1e-30}, 0), 1);
  EXPECT_EQ(choose_token(logits, {.greedy = true}, 0), 1);
  EXPECT_EQ(choose_token(logits, {.top_k = 1000}, 0.249), 0);
}

TEST(ChooseToken, RefusesWhatHasNoLargest) {
  const auto text = [](const std::vector<float>& logits) {
    return error_text<Error>([&] { choose_token(logits, {}, 0.5); });
  };
  EXPECT_THAT(text({0, NAN}), HasSubstr("are not finite"));
  EXPECT_THAT(text({0, INFINITY}), HasSubstr("are not finite"));
  EXPECT_THAT(text({-INFINITY}), HasSubstr("gives no token a chance"));
  EXPECT_THAT(text({}), HasSubstr("gives no token a chance"));
}

} // namespace
} // namespace cairn::generate::choose_token_test
