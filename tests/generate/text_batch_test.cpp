#include "generate/golden_generation.h"
#include "support/error_text.h"

#include <cairn/checkpoints/huggingface.h>
#include <cairn/generate/beam_search.h>
#include <cairn/generate/text_batch.h>
#include <cairn/model/presets.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace cairn::generate::text_batch_test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using Tokens = std::vector<std::int64_t>;
using Model = std::shared_ptr<models::Transformer>;

/// What a batch reported of one text, from its beginning to its end.
struct Report {
  std::vector<ScoredToken> prompt;
  std::vector<ScoredToken> tokens;
  std::optional<Ending> ending;

  Tokens ids() const {
    Tokens result;
    for (const ScoredToken& token : tokens) {
      result.push_back(token.id);
    }
    return result;
  }
};

bool operator==(const Report& a, const Report& b) {
  const auto same = [](const std::vector<ScoredToken>& x,
                       const std::vector<ScoredToken>& y) {
    return std::ranges::equal(x, y, [](const auto& s, const auto& t) {
      return s.id == t.id && s.log_probability == t.log_probability &&
          s.likeliest == t.likeliest;
    });
  };
  return same(a.prompt, b.prompt) && same(a.tokens, b.tokens) &&
      a.ending == b.ending;
}

using Reports = std::map<std::uint64_t, Report>;

void take(Reports& reports, const std::vector<TextGrowth>& growths) {
  for (const TextGrowth& growth : growths) {
    Report& report = reports[growth.text];
    EXPECT_FALSE(report.ending) << "a text grew after its end";
    for (std::size_t i = 0; i < growth.tokens.size(); ++i) {
      (i < growth.prompt_tokens ? report.prompt : report.tokens)
          .push_back(growth.tokens[i]);
    }
    report.ending = growth.ending;
  }
}

Report alone(
    const Model& model,
    const TextRequest& request,
    const TextBatchOptions& options = {}) {
  TextBatch batch(model, options);
  const std::uint64_t text = batch.add(request);
  Reports reports;
  while (!batch.empty()) {
    take(reports, batch.step());
  }
  return reports[text];
}

/// Requests of all kinds, with prompts of several lengths.
TextRequest some_request(std::mt19937& random) {
  const auto below = [&](int limit) {
    return static_cast<int>(random() % limit);
  };
  TextRequest request;
  for (int i = 1 + below(40); i > 0; --i) {
    request.prompt.push_back(below(512));
  }
  request.most_tokens = 1 + below(20);
  request.number = random() % 3;
  request.sampling = {.greedy = below(3) == 0, .temperature = 0.7};
  request.sampling.top_k = below(2) * 30;
  request.sampling.top_p = below(2) * 0.8;
  request.sampling.top_p_decay = below(2) * 0.9;
  request.sampling.repetition_penalty = 1 + 0.1 * below(3);
  request.end = 1;
  request.stops = {5, 6};
  request.likeliest = below(3);
  request.of_prompt = below(2) == 0;
  return request;
}

/// Adds requests and cancels some at random steps. What a cancelled text has is
/// the beginning of the whole text.
void expect_independent(const Model& model, const TextBatchOptions& options) {
  std::mt19937 random(7);
  TextBatch batch(model, options);
  std::map<std::uint64_t, TextRequest> requests;
  Reports reports;
  constexpr std::size_t count = 24;
  while (requests.size() < count || !batch.empty()) {
    while (requests.size() < count && random() % 3 != 0) {
      const TextRequest request = some_request(random);
      requests[batch.add(request)] = request;
    }
    if (random() % 8 == 0 && !requests.empty()) {
      batch.cancel(random() % requests.size());
    }
    take(reports, batch.step());
  }
  ASSERT_EQ(reports.size(), count);
  int whole = 0;
  for (const auto& [text, request] : requests) {
    const Report& report = reports[text];
    ASSERT_TRUE(report.ending);
    Report expected = alone(model, request);
    if (report.ending == Ending::cancelled) {
      ASSERT_LE(report.tokens.size(), expected.tokens.size());
      ASSERT_LE(report.prompt.size(), expected.prompt.size());
      expected.tokens.resize(report.tokens.size());
      expected.prompt.resize(report.prompt.size());
      expected.ending = Ending::cancelled;
    } else {
      ++whole;
    }
    EXPECT_TRUE(report == expected) << "text " << text;
    EXPECT_TRUE(
        report.ending == Ending::cancelled || !request.of_prompt ||
        report.prompt.size() + 1 == request.prompt.size());
  }
  EXPECT_GT(whole, 8);
}

TEST(TextBatch, TextsDoNotDependOnWhoIsBesideThem) {
  for (const char* name : {"gpt2", "llama", "qwen3", "gpt_neox"}) {
    const Model model = golden_model(name);
    expect_independent(model, {});
    expect_independent(
        model,
        {.most_texts = 3, .page_tokens = 5, .step_tokens = 7});
  }
}

TEST(TextBatch, TextsDoNotDependOnHowOftenMemoryRunsOut) {
  const Model model = golden_model();
  // Five pages, and texts of up to 60 tokens.
  expect_independent(
      model,
      {.most_texts = 8, .page_tokens = 16, .cache_tokens = 80});
}

TEST(TextBatch, TextsDoNotDependOnTheWeightsOfOthers) {
  const Model model = golden_model("llama");
  for (const WeightType type : {WeightType::bf16, WeightType::int8}) {
    TextBatchOptions options;
    options.weights = type;
    TextBatch batch(model, options);
    Reports reports;
    std::mt19937 random(3);
    std::map<std::uint64_t, TextRequest> requests;
    for (int i = 0; i < 5; ++i) {
      const TextRequest request = some_request(random);
      requests[batch.add(request)] = request;
      take(reports, batch.step());
    }
    while (!batch.empty()) {
      take(reports, batch.step());
    }
    for (const auto& [text, request] : requests) {
      EXPECT_TRUE(reports[text] == alone(model, request, options));
    }
  }
}

/// The largest difference between the log-probabilities of two reports, whose
/// tokens are the same.
float difference(const Report& a, const Report& b) {
  EXPECT_EQ(a.ids(), b.ids());
  EXPECT_EQ(a.prompt.size(), b.prompt.size());
  float most = 0;
  for (std::size_t i = 0; i < a.tokens.size(); ++i) {
    most = std::max(
        most,
        std::abs(a.tokens[i].log_probability - b.tokens[i].log_probability));
  }
  for (std::size_t i = 0; i < a.prompt.size(); ++i) {
    most = std::max(
        most,
        std::abs(a.prompt[i].log_probability - b.prompt[i].log_probability));
  }
  return most;
}

TEST(TextBatch, KeptKeysAndValuesGiveWhatWholeTextsGive) {
  for (const char* name : {"gpt2", "llama", "qwen3", "gpt_neox"}) {
    const Model model = golden_model(name);
    for (const bool greedy : {true, false}) {
      TextRequest request{
          .prompt = {63, 218, 33, 184, 481},
          .sampling = {.greedy = greedy, .top_k = 50},
          .most_tokens = 40};
      request.of_prompt = true;
      EXPECT_LT(
          difference(
              alone(model, request, {.step_tokens = 2}),
              alone(model, request, {.recompute = true})),
          2e-5F)
          << name;
    }
  }
}

/// Models of all shapes that the flags describe.
std::vector<models::ModelDescription> descriptions() {
  const models::ModelDescription gpt = model::gpt_description(
      {.layers = 2,
       .hidden = 40,
       .heads = 2,
       .sequence = 48,
       .vocabulary = 61,
       .padded_vocabulary = 64});
  std::vector<models::ModelDescription> all{gpt};
  all.push_back(gpt);
  all.back().activation = model::ActivationKind::gelu_tanh;
  all.back().tied_head = false;
  all.push_back(gpt);
  all.back().activation = model::ActivationKind::relu;
  all.back().attention_bias = false;
  all.back().mlp_bias = false;
  for (const char* scaling : {"", "linear", "llama3"}) {
    all.push_back(gpt);
    models::ModelDescription& d = all.back();
    d.family = model::ModelFamily::llama;
    d.position = model::PositionKind::rotary;
    d.norm = model::NormKind::rms_norm;
    d.activation = model::ActivationKind::silu;
    d.gated = true;
    d.heads = 4;
    d.head_size = 10;
    d.key_value_heads = 2;
    d.attention_bias = false;
    d.mlp_bias = false;
    if (*scaling != '\0') {
      d.rope_scaling = model::RopeScaling{
          .kind = scaling,
          .factor = 4,
          .low_frequency_factor = 1,
          .high_frequency_factor = 4,
          .original_positions = 16};
    }
  }
  return all;
}

TEST(TextBatch, ComputesEveryKindOfModel) {
  for (const models::ModelDescription& d : descriptions()) {
    models::ModelOptions options;
    options.initial_std = 0.2;
    const Model model = models::make_model(d, options);
    TextRequest request{
        .prompt = {3, 60, 14, 15},
        .sampling = {.top_k = 20},
        .most_tokens = 44};
    request.of_prompt = true;
    EXPECT_LT(
        difference(
            alone(model, request),
            alone(model, request, {.recompute = true})),
        1e-4F);
  }
}

/// A GPT with experts in every layer, of which training drops most tokens.
models::ModelDescription with_experts(std::int64_t top_k, bool residual) {
  models::ModelDescription d = descriptions().front();
  d.experts = model::ExpertsDescription{
      .counts = {4, 8},
      .interval = 1,
      .top_k = top_k,
      .residual = residual,
      .eval_capacity_factor = 0.1,
      .min_capacity = 1};
  return d;
}

Model made(const models::ModelDescription& d) {
  models::ModelOptions options;
  options.initial_std = 0.2;
  return models::make_model(d, options);
}

TEST(TextBatch, ExpertsGiveWhatWholeTextsGive) {
  for (models::ModelDescription d :
       {with_experts(1, false),
        with_experts(2, false),
        with_experts(3, false),
        with_experts(1, true),
        with_experts(2, true)}) {
    for (const bool gated : {false, true}) {
      d.gated = gated;
      d.mlp_bias = !gated;
      const Model model = made(d);
      TextRequest request{
          .prompt = {3, 60, 14, 15},
          .sampling = {.top_k = 20},
          .most_tokens = 44};
      request.of_prompt = true;
      EXPECT_LT(
          difference(
              alone(model, request, {.step_tokens = 3}),
              alone(model, request, {.recompute = true})),
          1e-4F)
          << d.experts->top_k << d.experts->residual << gated;
    }
  }
}

TEST(TextBatch, ExpertsAreInSomeLayersOnly) {
  models::ModelDescription d = with_experts(1, false);
  d.layers = 3;
  d.experts->interval = 2;
  d.experts->counts = {4};
  const Model model = made(d);
  const TextRequest request{
      .prompt = {3, 60, 14, 15},
      .sampling = {.greedy = true},
      .most_tokens = 20};
  EXPECT_LT(
      difference(
          alone(model, request),
          alone(model, request, {.recompute = true})),
      1e-4F);
}

TEST(TextBatch, TextsDoNotDependOnWhoAsksTheSameExperts) {
  for (const bool residual : {false, true}) {
    models::ModelDescription d = with_experts(2, residual);
    d.vocabulary = 512;
    d.padded_vocabulary = 512;
    d.positions = 64;
    const Model model = made(d);
    expect_independent(model, {});
    expect_independent(
        model,
        {.most_texts = 3, .page_tokens = 5, .step_tokens = 7});
  }
}

TEST(TextBatch, ExpertsTakeOtherNumbers) {
  const Model model = made(with_experts(2, true));
  TextRequest request{
      .prompt = {3, 60, 14, 15, 9, 2},
      .sampling = {.greedy = true},
      .most_tokens = 1};
  request.of_prompt = true;
  const Report wide = alone(model, request);
  for (const WeightType type : {WeightType::bf16, WeightType::int8}) {
    TextBatchOptions options;
    options.weights = type;
    const Report own = alone(model, request, options);
    ASSERT_EQ(own.prompt.size(), wide.prompt.size());
    for (std::size_t i = 0; i < own.prompt.size(); ++i) {
      EXPECT_NE(own.prompt[i].log_probability, wide.prompt[i].log_probability);
      EXPECT_NEAR(
          own.prompt[i].log_probability,
          wide.prompt[i].log_probability,
          0.2);
    }
  }
}

TEST(TextBatch, WholeTextsLeaveTheModelAsItWas) {
  const models::ModelDescription d = with_experts(1, false);
  const Model model = made(d);
  model->eval();
  const at::Tensor tokens = at::arange(40, at::kLong).view({1, 40});
  const at::Tensor before = model->forward({.tokens = tokens}).logits;
  alone(
      model,
      {.prompt = {3, 60, 14, 15}, .most_tokens = 2},
      {.recompute = true});
  EXPECT_TRUE(at::equal(before, model->forward({.tokens = tokens}).logits));
}

TEST(TextBatch, ModelsInHalfPrecisionAreComputed) {
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    models::ModelOptions options;
    options.dtype = type;
    const Model narrow = golden_model("llama", options);
    const TextRequest request{
        .prompt = {63, 218, 33, 184, 481},
        .sampling = {.greedy = true},
        .most_tokens = 3};
    const Report own = alone(narrow, request);
    const Report wide = alone(golden_model("llama"), request);
    EXPECT_NEAR(
        own.tokens[0].log_probability,
        wide.tokens[0].log_probability,
        0.05);
    EXPECT_NE(own.tokens[0].log_probability, wide.tokens[0].log_probability);
  }
}

/// The tiny Llama with the LongRoPE of golden data.
Model longrope_model(const json& golden) {
  models::StoredModel stored = models::open_model(
      std::filesystem::path(CAIRN_GOLDEN_DIR) / "models" / "llama");
  stored.description = checkpoints::model_description_from_huggingface(
      golden.at("config").dump(),
      "longrope.json");
  return models::load_model(stored);
}

TEST(TextBatch, TextsGrowBeyondLongRopesOriginalContext) {
  const json golden = golden_generation("longrope.json");
  for (const char* name : {"llama", "llama_given_factor"}) {
    const Model model = longrope_model(golden.at(name));
    for (const TextBatchOptions& options : std::vector<TextBatchOptions>{
             {},
             {.most_texts = 3, .page_tokens = 5, .step_tokens = 7},
             {.recompute = true}}) {
      TextBatch batch(model, options);
      Reports reports;
      for (const auto& row : golden.at(name).at("greedy")) {
        batch.add(
            {.prompt = row.at("prompt"),
             .sampling = {.greedy = true},
             .most_tokens = 48});
      }
      while (!batch.empty()) {
        take(reports, batch.step());
      }
      ASSERT_EQ(reports.size(), 5U);
      for (const auto& [text, report] : reports) {
        EXPECT_EQ(
            report.ids(),
            golden.at(name).at("greedy")[text].at("ids").get<Tokens>())
            << name << " " << text;
      }
    }
  }
}

TEST(TextBatch, HasTheProbabilitiesOfLongRope) {
  const json golden = golden_generation("longrope.json");
  for (const char* name : {"llama", "llama_given_factor"}) {
    const Model model = longrope_model(golden.at(name));
    for (const auto& row : golden.at(name).at("log_probs")) {
      const std::vector<double> expected = row.at("log_prob_of_next");
      TextRequest request{.prompt = row.at("ids"), .most_tokens = 1};
      request.of_prompt = true;
      for (const bool recompute : {false, true}) {
        const Report report =
            alone(model, request, {.step_tokens = 9, .recompute = recompute});
        ASSERT_EQ(report.prompt.size(), expected.size());
        for (std::size_t i = 0; i < expected.size(); ++i) {
          EXPECT_NEAR(report.prompt[i].log_probability, expected[i], 2e-5);
        }
      }
    }
  }
}

TEST(TextBatch, WritesTheTextsOfTransformersInEveryFamily) {
  const json golden = golden_generation("families.json");
  for (const char* name : {"qwen2", "qwen3", "gpt_neox", "mixtral"}) {
    const Model model = golden_model(name);
    for (const TextBatchOptions& options : std::vector<TextBatchOptions>{
             {},
             {.most_texts = 2, .page_tokens = 5, .step_tokens = 7},
             {.recompute = true}}) {
      TextBatch batch(model, options);
      Reports reports;
      for (const auto& row : golden.at(name)) {
        batch.add(
            {.prompt = row.at("prompt"),
             .sampling = {.greedy = true},
             .most_tokens = 24});
      }
      while (!batch.empty()) {
        take(reports, batch.step());
      }
      ASSERT_EQ(reports.size(), 3U);
      for (const auto& [text, report] : reports) {
        EXPECT_EQ(report.ids(), golden.at(name)[text].at("ids").get<Tokens>())
            << name << " " << text;
      }
    }
  }
}

TEST(TextBatch, TextsWithLongRopeDoNotDependOnWhoIsBesideThem) {
  const Model model =
      longrope_model(golden_generation("longrope.json").at("llama"));
  expect_independent(model, {});
  expect_independent(
      model,
      {.most_texts = 8, .page_tokens = 16, .cache_tokens = 112});
}

TEST(TextBatch, BeamsGrowBeyondLongRopesOriginalContext) {
  const Model model =
      longrope_model(golden_generation("longrope.json").at("llama"));
  const Tokens prompt{131, 399, 426, 374, 30, 130, 237, 309, 342, 94,  505,
                      296, 399, 88,  13,  88, 13,  88,  13,  88,  355, 342};
  const BeamOptions options{.width = 3, .most_tokens = 12};
  BeamSearch kept(model, 3, {.page_tokens = 5, .step_tokens = 7});
  BeamSearch anew(model, 3, {.recompute = true});
  const auto own = kept.after(prompt, options);
  const auto expected = anew.after(prompt, options);
  ASSERT_EQ(own.size(), 3U);
  for (std::size_t i = 0; i < own.size(); ++i) {
    EXPECT_EQ(own[i].tokens, expected[i].tokens);
    EXPECT_EQ(own[i].tokens.size(), 12U);
    EXPECT_NEAR(own[i].score, expected[i].score, 1e-5);
  }
}

TEST(TextBatch, ReportsTheLogProbabilitiesOfTransformers) {
  const Model model = golden_model();
  for (const auto& row : golden_generation("logprobs.json")) {
    const Tokens ids = row.at("ids");
    const std::vector<double> expected = row.at("log_prob_of_next");
    TextRequest request{.prompt = ids, .most_tokens = 1};
    request.of_prompt = true;
    request.likeliest = 3;
    const Report report = alone(model, request, {.step_tokens = 5});
    ASSERT_EQ(report.prompt.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(report.prompt[i].id, ids[i + 1]);
      EXPECT_NEAR(report.prompt[i].log_probability, expected[i], 2e-5);
      ASSERT_EQ(report.prompt[i].likeliest.size(), 3U);
      EXPECT_GE(
          report.prompt[i].likeliest[0].second,
          report.prompt[i].log_probability);
      EXPECT_GE(
          report.prompt[i].likeliest[1].second,
          report.prompt[i].likeliest[2].second);
    }
  }
}

TEST(TextBatch, TextsEndWhereTheyAreTold) {
  const Model model = golden_model();
  const TextRequest plain{
      .prompt = {63, 218, 33, 184, 481},
      .sampling = {.greedy = true},
      .most_tokens = 6};
  const Report report = alone(model, plain);
  EXPECT_EQ(report.ids(), (Tokens{67, 1, 1, 1, 1, 1}));
  EXPECT_EQ(report.ending, Ending::length);
  TextRequest ends = plain;
  ends.end = 1;
  EXPECT_EQ(alone(model, ends).ids(), (Tokens{67, 1}));
  EXPECT_EQ(alone(model, ends).ending, Ending::end_token);
  TextRequest stops = plain;
  stops.stops = {2, 67};
  EXPECT_EQ(alone(model, stops).ids(), Tokens{67});
  TextRequest penalized = plain;
  penalized.sampling.repetition_penalty = 1e6;
  Tokens ids = alone(model, penalized).ids();
  std::ranges::sort(ids);
  EXPECT_TRUE(std::ranges::adjacent_find(ids) == ids.end());
  TextRequest endless = plain;
  endless.most_tokens = 1000;
  EXPECT_EQ(alone(model, endless).ids().size(), 59U); // 64 positions
  EXPECT_EQ(
      alone(model, endless, {.page_tokens = 8, .cache_tokens = 24})
          .ids()
          .size(),
      20U); // 24 that are kept, and one that is not computed
}

TEST(TextBatch, ALongPromptDoesNotHoldUpOthers) {
  TextBatch batch(golden_model(), {.step_tokens = 4});
  const std::uint64_t first = batch.add({.prompt = {1}, .most_tokens = 30});
  EXPECT_EQ(batch.step().size(), 1U);
  const std::uint64_t late =
      batch.add({.prompt = Tokens(20, 7), .most_tokens = 2});
  for (int i = 0; i < 4; ++i) {
    const auto growths = batch.step();
    ASSERT_EQ(growths.size(), 1U);
    EXPECT_EQ(growths[0].text, first);
  }
  const auto growths = batch.step();
  ASSERT_EQ(growths.size(), 2U);
  EXPECT_EQ(growths[1].text, late);
}

TEST(TextBatch, CancelledTextsLeaveTheirPlace) {
  TextBatch batch(golden_model(), {.most_texts = 1});
  const std::uint64_t first = batch.add({.prompt = {1}});
  const std::uint64_t second = batch.add({.prompt = {2}});
  const std::uint64_t third = batch.add({.prompt = {3}});
  ASSERT_EQ(batch.step().size(), 1U);
  batch.cancel(first);
  batch.cancel(third); // waits in line
  batch.cancel(17);
  const auto growths = batch.step();
  ASSERT_EQ(growths.size(), 3U);
  EXPECT_EQ(growths[0].ending, Ending::cancelled);
  EXPECT_TRUE(growths[0].tokens.empty());
  EXPECT_EQ(growths[1].text, second);
  EXPECT_EQ(growths[1].tokens.size(), 1U);
  EXPECT_EQ(growths[2].ending, Ending::cancelled);
  batch.cancel(first);
  EXPECT_EQ(batch.step().size(), 1U);
  batch.cancel(second);
  EXPECT_FALSE(batch.empty());
  EXPECT_EQ(batch.step().size(), 1U);
  EXPECT_TRUE(batch.empty());
  EXPECT_TRUE(batch.step().empty());
}

TEST(TextBatch, RefusesWhatCannotBe) {
  const Model model = golden_model();
  TextBatch batch(model, {});
  const auto refusal = [&](const TextRequest& request) {
    return error_text([&] { batch.add(request); });
  };
  const auto data_refusal = [&](const TextRequest& request) {
    return error_text<DataError>([&] { batch.add(request); });
  };
  EXPECT_THAT(data_refusal({}), HasSubstr("without a token"));
  EXPECT_THAT(data_refusal({.prompt = Tokens(64, 1)}), HasSubstr("at most 64"));
  EXPECT_THAT(data_refusal({.prompt = {-1}}), HasSubstr("out of range"));
  EXPECT_THAT(data_refusal({.prompt = {512}}), HasSubstr("out of range"));
  EXPECT_THAT(
      refusal({.prompt = {1}, .most_tokens = 0}),
      HasSubstr("one token"));
  EXPECT_THAT(
      refusal({.prompt = {1}, .sampling = {.repetition_penalty = 0}}),
      HasSubstr("penalty"));
  EXPECT_THAT(
      refusal({.prompt = {1}, .sampling = {.top_p_decay = 2}}),
      HasSubstr("top_p_decay"));
  TextBatch small(model, {.page_tokens = 4, .cache_tokens = 8});
  EXPECT_EQ(small.longest(), 9);
  EXPECT_THAT(
      error_text<DataError>([&] { small.add({.prompt = Tokens(9, 1)}); }),
      HasSubstr("9 tokens, and a text has at most 9"));
  EXPECT_THAT(
      error_text([&] { TextBatch(model, {.most_texts = 0}); }),
      HasSubstr("one text"));
  EXPECT_THAT(
      error_text([&] { TextBatch(golden_model("bert"), {}); }),
      HasSubstr("from left to right (bert)"));
  TextBatchOptions anew{.recompute = true};
  anew.weights = WeightType::int8;
  EXPECT_THAT(
      error_text([&] { TextBatch(model, anew); }),
      HasSubstr("weights are not converted"));
  EXPECT_TRUE(batch.empty());
}

} // namespace
} // namespace cairn::generate::text_batch_test
