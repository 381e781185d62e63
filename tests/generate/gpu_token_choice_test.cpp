// Tokens that the GPU chooses against those of choose_token() for the same
// scores and the same random number. It also runs on the stand-in for a GPU
// (tests/kernels/cuda_on_cpu).
#include "generate/choose_token.h"
#include "generate/repetition_penalty.h"
#include "kernels/cuda_test.h"
#include "kernels/internal/cuda/token_choice.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <utility>
#include <vector>

namespace cairn::generate::gpu_token_choice_test {
namespace {

using kernels::cuda::ScorePeak;
using kernels::cuda::TokenRule;
using kernels::cuda_test::device;

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float log_sum = 3.25F; // which a choice leaves alone

/// A row of scores, and how its token is chosen.
struct Case {
  std::vector<float> scores;
  Sampling sampling{};
  double chance = 0;
  std::int64_t among = 0;
  std::vector<std::int64_t> penalized{};
  std::int64_t never = -1;
};

at::Tensor bytes_of(const void* from, std::size_t count) {
  at::Tensor bytes = at::empty(
      {static_cast<std::int64_t>(std::max<std::size_t>(count, 1))},
      at::TensorOptions(at::kByte));
  std::memcpy(bytes.mutable_data_ptr(), from, count);
  return bytes.to(device);
}

/// Scores in the GPU's memory, each case in a row: behind the columns of a row
/// are scores that are higher than all of its own.
struct OnGpu {
  explicit OnGpu(const std::vector<Case>& cases) {
    std::int64_t step = 0;
    for (const Case& each : cases) {
      step = std::max(step, std::ssize(each.scores) + 5);
    }
    scores = at::full({std::ssize(cases), step}, 1e30, at::kFloat);
    std::vector<ScorePeak> before(cases.size(), {7, log_sum, 7});
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const Case& each = cases[i];
      std::copy(
          each.scores.begin(),
          each.scores.end(),
          scores[static_cast<std::int64_t>(i)].mutable_data_ptr<float>());
      rules.push_back(
          {.top_p = each.sampling.top_p,
           .chance = each.chance,
           .sharpness = kernels::cuda::sharpness_of(each.sampling.temperature),
           .penalty = static_cast<float>(each.sampling.repetition_penalty),
           .row = static_cast<std::int32_t>(i),
           .among = static_cast<std::int32_t>(each.among),
           .top_k = each.sampling.greedy
               ? 1
               : static_cast<std::int32_t>(each.sampling.top_k),
           .never = static_cast<std::int32_t>(each.never),
           .first_penalized = static_cast<std::int32_t>(penalized.size()),
           .penalized = static_cast<std::int32_t>(each.penalized.size())});
      penalized.insert(
          penalized.end(),
          each.penalized.begin(),
          each.penalized.end());
    }
    // Rules need not be in the order of the rows.
    std::ranges::reverse(rules);
    scores = scores.to(device);
    peaks = bytes_of(before.data(), before.size() * sizeof(ScorePeak));
  }

  std::vector<ScorePeak> chosen() {
    const at::Tensor own = scores.clone(); // penalties change it
    const at::Tensor found = peaks.clone();
    const at::Tensor all_rules =
        bytes_of(rules.data(), rules.size() * sizeof(TokenRule));
    const at::Tensor list =
        bytes_of(penalized.data(), penalized.size() * sizeof(std::int32_t));
    const at::Tensor before =
        at::empty({std::ssize(penalized) + 1}, own.options());
    kernels::cuda_test::started(kernels::cuda::choose_tokens(
        {.count = std::ssize(rules),
         .rules = static_cast<const TokenRule*>(all_rules.const_data_ptr()),
         .step = own.stride(0),
         .scores = own.mutable_data_ptr<float>(),
         .penalized = static_cast<const std::int32_t*>(list.const_data_ptr()),
         .before = before.mutable_data_ptr<float>()},
        static_cast<ScorePeak*>(found.mutable_data_ptr()),
        kernels::cuda_test::stream()));
    const at::Tensor on_host = found.cpu();
    std::vector<ScorePeak> result(rules.size());
    std::memcpy(
        result.data(),
        on_host.const_data_ptr(),
        result.size() * sizeof(ScorePeak));
    return result;
  }

  at::Tensor scores;
  at::Tensor peaks;
  std::vector<TokenRule> rules;
  std::vector<std::int32_t> penalized;
};

/// The scores among which choose_token() would choose.
std::vector<float> changed_scores(const Case& each) {
  std::vector<float> scores = each.scores;
  scores.resize(static_cast<std::size_t>(each.among));
  penalize(scores, each.penalized, each.sampling.repetition_penalty);
  if (each.never >= 0 && each.never < each.among) {
    scores[static_cast<std::size_t>(each.never)] = -inf;
  }
  return scores;
}

/// Compares every case, and returns how many tokens were the very same. Others
/// are beside the place that the chance is at, but for rounding.
int expect_chosen(const std::vector<Case>& cases, bool twice = false) {
  OnGpu on_gpu(cases);
  const std::vector<ScorePeak> found = on_gpu.chosen();
  const std::vector<ScorePeak> again = twice ? on_gpu.chosen() : found;
  int same = 0;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Case& each = cases[i];
    SCOPED_TRACE(
        ::testing::Message()
        << "case " << i << " columns " << each.among << " temperature "
        << each.sampling.temperature << " top_k " << each.sampling.top_k
        << " top_p " << each.sampling.top_p << " chance " << each.chance);
    EXPECT_EQ(found[i].column, again[i].column);
    EXPECT_EQ(found[i].log_sum, log_sum);
    const std::vector<float> scores = changed_scores(each);
    const std::int64_t expected =
        choose_token(scores, each.sampling, each.chance);
    if (found[i].column < 0 || found[i].column >= each.among) {
      ADD_FAILURE() << "token " << found[i].column;
      continue;
    }
    EXPECT_EQ(
        found[i].highest,
        each.scores[static_cast<std::size_t>(found[i].column)]);
    if (found[i].column == expected) {
      ++same;
      continue;
    }
    const Candidates kept = candidates(scores, each.sampling);
    const auto place = std::ranges::find(kept.ids, found[i].column);
    if (place == kept.ids.end()) {
      ADD_FAILURE() << found[i].column << " is no candidate";
      continue;
    }
    const auto at = static_cast<std::size_t>(place - kept.ids.begin());
    const double all = kept.sums.back();
    const double target = each.chance * all;
    EXPECT_GE(target, (at == 0 ? 0 : kept.sums[at - 1]) - 4e-6 * all);
    EXPECT_LE(target, kept.sums[at] + 4e-6 * all);
  }
  return same;
}

/// Scores of many kinds.
std::vector<float> scores_of(
    int kind,
    std::int64_t columns,
    std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<float> scores;
  for (std::int64_t i = 0; i < columns; ++i) {
    const float x = normal(random);
    scores.push_back(
        kind == 0       ? x
            : kind == 1 ? 8 * x - 20
            : kind == 2 ? std::round(2 * x) // many equal ones
            : kind == 3 ? (random() % 3 == 0 ? -inf : x)
            : kind == 4 ? (random() % 2 == 0 ? 0.0F : -0.0F)
            : kind == 5 ? 1e-40F * x // below the smallest
            : kind == 6 ? 1e37F * x
                        : -7); // all equal
  }
  scores[random() % scores.size()] = kind == 4 ? 0.0F : scores[0];
  if (kind == 3) {
    scores[random() % scores.size()] = 1;
  }
  return scores;
}
constexpr int kinds = 8;

TEST(GpuTokenChoice, IsThatOfTheCpu) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> uniform;
  std::vector<Case> cases;
  for (const std::int64_t columns : {7, 5003}) {
    for (int kind = 0; kind < kinds; ++kind) {
      for (const auto& [top_k, top_p] :
           std::vector<std::pair<std::int64_t, double>>{
               {0, 0},
               {0, 1},
               {0, 0.9},
               {0, 1e-9},
               {0, 1 - 1e-16},
               {1, 0.5},
               {2, 0},
               {40, 0},
               {40, 0.5},
               {100000, 0.3}}) {
        Case each{.scores = scores_of(kind, columns, random)};
        each.sampling.top_k = top_k;
        each.sampling.top_p = top_p;
        each.sampling.temperature = random() % 2 == 0 ? 1 : 0.7;
        each.chance = uniform(random);
        // Half of the columns may be chosen, at times.
        each.among = random() % 4 == 0 ? (columns + 1) / 2 : columns;
        if (std::ranges::all_of(
                std::span(each.scores)
                    .first(static_cast<std::size_t>(each.among)),
                [](float x) { return x == -inf; })) {
          each.scores[0] = 2;
        }
        cases.push_back(std::move(each));
      }
    }
  }
  const int same = expect_chosen(cases);
  EXPECT_GE(same, static_cast<int>(0.97 * static_cast<double>(cases.size())));
}

TEST(GpuTokenChoice, IsThatOfTheCpuForAVocabulary) {
  std::mt19937 random(2);
  std::uniform_real_distribution<double> uniform;
  std::vector<Case> cases;
  for (const int kind : {0, 1, 2}) {
    for (const auto& [top_k, top_p] :
         std::vector<std::pair<std::int64_t, double>>{
             {0, 0.9},
             {0, 0},
             {500, 0.95}}) {
      cases.push_back(
          {.scores = scores_of(kind, 50257, random),
           .sampling = {.top_k = top_k, .top_p = top_p},
           .chance = uniform(random),
           .among = 50257});
    }
  }
  EXPECT_GE(expect_chosen(cases, true), static_cast<int>(cases.size()) - 1);
}

TEST(GpuTokenChoice, TheEndsOfChanceAndTemperature) {
  std::mt19937 random(3);
  std::vector<Case> cases;
  for (const double chance : {0.0, 0.497, std::nextafter(1.0, 0.0)}) {
    for (const double temperature : {1e-300, 1e-3, 1e3, 1e12}) {
      for (const double top_p : {0.0, 0.8123}) {
        for (const std::int64_t top_k : {0, 3}) {
          cases.push_back(
              {.scores = scores_of(0, 300, random),
               .sampling =
                   {.temperature = temperature, .top_k = top_k, .top_p = top_p},
               .chance = chance,
               .among = 300});
        }
      }
    }
  }
  EXPECT_GE(expect_chosen(cases), static_cast<int>(cases.size()) - 2);
}

TEST(GpuTokenChoice, TakesPenaltiesAndForbiddenTokens) {
  std::mt19937 random(4);
  std::uniform_real_distribution<double> uniform;
  std::vector<Case> cases;
  for (int i = 0; i < 60; ++i) {
    Case each{
        .scores = scores_of(i % 4, 200, random),
        .sampling =
            {.greedy = i % 5 == 0,
             .top_k = i % 3 == 0 ? 10 : 0,
             .top_p = i % 2 == 0 ? 0.7 : 0,
             .repetition_penalty = i % 4 == 0 ? 0.5 : 1.7},
        .chance = uniform(random),
        .among = i % 7 == 0 ? 150 : 200};
    each.scores[7] = 30; // divided by the penalty: still the likeliest, or not
    each.scores[8] = 20;
    each.scores[9] = 20;
    for (const std::int64_t token : {7, 9, 3, 199, 30}) {
      if (random() % 3 != 0) {
        each.penalized.push_back(token);
      }
    }
    each.never = i % 6 == 0 ? 8 : i % 6 == 1 ? 180 : -1;
    cases.push_back(std::move(each));
  }
  EXPECT_GE(expect_chosen(cases), static_cast<int>(cases.size()) - 1);
}

TEST(GpuTokenChoice, SaysWhatCannotBeChosenFrom) {
  std::vector<Case> cases;
  for (int i = 0; i < 5; ++i) {
    Case each{
        .scores = std::vector<float>(100, i == 0 ? -inf : 1.0F),
        .sampling = {.top_p = 0.9},
        .among = 90};
    cases.push_back(each);
  }
  cases[1].scores[89] = inf;
  cases[2].scores[0] = std::nanf("");
  cases[3].scores[95] = inf; // behind those that may be chosen
  cases[4].among = 1;        // the only one is forbidden
  cases[4].never = 0;
  const std::vector<ScorePeak> found = OnGpu(cases).chosen();
  EXPECT_EQ(found[0].highest, -inf);
  EXPECT_TRUE(std::isnan(found[1].highest));
  EXPECT_TRUE(std::isnan(found[2].highest));
  EXPECT_EQ(found[3].highest, 1);
  EXPECT_EQ(found[4].highest, -inf);
}

TEST(GpuTokenChoice, DrawsByProbability) {
  // The k-th of so many equally spaced chances: every token has its share.
  constexpr int draws = 30;
  const std::vector<float> scores{
      std::log(4.0F),
      std::log(1.0F),
      std::log(2.0F),
      std::log(1.0F),
      -inf};
  for (const double top_p : {0.0, 0.74, 0.8}) {
    std::vector<Case> cases;
    for (int i = 0; i < draws; ++i) {
      cases.push_back(
          {.scores = scores,
           .sampling = {.top_p = top_p},
           .chance = (i + 0.5) / draws,
           .among = 5});
    }
    std::vector<int> counts(5);
    for (const ScorePeak& each : OnGpu(cases).chosen()) {
      ++counts[static_cast<std::size_t>(each.column)];
    }
    const double all = top_p == 0 ? 8 : top_p < 0.75 ? 6 : 7;
    EXPECT_NEAR(counts[0], draws * 4 / all, 1);
    EXPECT_NEAR(counts[2], draws * 2 / all, 1);
    EXPECT_NEAR(counts[1], top_p == 0.74 ? 0 : draws / all, 1);
    EXPECT_NEAR(counts[3], top_p == 0 ? draws / all : 0, 1);
    EXPECT_EQ(counts[4], 0);
  }
}

} // namespace
} // namespace cairn::generate::gpu_token_choice_test
