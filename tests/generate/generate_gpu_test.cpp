#include "generate/golden_generation.h"
#include "support/error_text.h"

#include <cairn/generate/beam_search.h>
#include <cairn/generate/generate.h>
#include <cairn/generate/text_batch.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace cairn::generate::generate_gpu_test {
namespace {

using Tokens = std::vector<std::int64_t>;
using Model = std::shared_ptr<models::Transformer>;

Model on_gpu(const char* name, at::ScalarType type = at::kFloat) {
  models::ModelOptions options;
  options.device = at::Device("cuda:0");
  options.dtype = type;
  return golden_model(name, options);
}

struct Golden {
  std::vector<Tokens> prompts;
  std::vector<Tokens> wanted;
};

Golden greedy_texts() {
  Golden golden;
  for (const auto& row : golden_generation("greedy.json")) {
    if (!row.contains("eos")) {
      golden.prompts.push_back(row.at("prompt"));
      golden.wanted.push_back(row.at("ids"));
    }
  }
  return golden;
}

TEST(GenerateGpu, WritesWhatTransformersWrites) {
  const auto model = on_gpu("gpt2");
  const Golden golden = greedy_texts();
  for (const bool recompute : {false, true}) {
    TextBatchOptions options;
    options.recompute = recompute;
    TextBatch batch(model, options);
    const auto made = generate(
        batch,
        model->description(),
        golden.prompts,
        {.sampling = {.greedy = true}});
    for (std::size_t i = 0; i < golden.prompts.size(); ++i) {
      Tokens all = golden.prompts[i];
      all.insert(all.end(), made[i].tokens.begin(), made[i].tokens.end());
      ASSERT_EQ(all.size(), 64U);
      all.resize(golden.wanted[i].size());
      EXPECT_EQ(all, golden.wanted[i]) << (recompute ? "whole" : "kept");
    }
  }
}

struct Report {
  Tokens ids;
  std::vector<float> log_probabilities;
};

std::map<std::uint64_t, Report> finish(TextBatch& batch) {
  std::map<std::uint64_t, Report> reports;
  while (!batch.empty()) {
    for (const TextGrowth& growth : batch.step()) {
      for (const ScoredToken& token : growth.tokens) {
        reports[growth.text].ids.push_back(token.id);
        reports[growth.text].log_probabilities.push_back(token.log_probability);
      }
    }
  }
  return reports;
}

/// Texts of a batch whose memory runs out, so that some are set aside, and
/// whose prompts come in pieces, against whole texts on the CPU.
TEST(GenerateGpu, WritesWhatTheCpuWrites) {
  const std::vector<Tokens> prompts{
      {98},
      {111, 16},
      {63, 218, 33, 184, 481},
      {5, 17, 3, 8, 9, 400, 21}};
  for (const char* name : {"gpt2", "llama"}) {
    TextBatchOptions on_cpu;
    on_cpu.recompute = true;
    TextBatch reference(golden_model(name), on_cpu);
    TextBatchOptions options{
        .most_texts = 3,
        .page_tokens = 4,
        .cache_tokens = 64,
        .step_tokens = 3};
    TextBatch batch(on_gpu(name), options);
    for (const Tokens& prompt : prompts) {
      for (const bool of_prompt : {false, true}) {
        TextRequest request{
            .prompt = prompt,
            .sampling = {.greedy = true},
            .most_tokens = 30};
        request.of_prompt = of_prompt;
        reference.add(request);
        batch.add(request);
      }
    }
    const auto expected = finish(reference);
    const auto found = finish(batch);
    ASSERT_EQ(found.size(), expected.size());
    for (const auto& [text, report] : expected) {
      ASSERT_EQ(found.at(text).ids, report.ids) << name << " text " << text;
      for (std::size_t i = 0; i < report.ids.size(); ++i) {
        EXPECT_NEAR(
            found.at(text).log_probabilities[i],
            report.log_probabilities[i],
            1e-3);
      }
    }
  }
}

/// Texts whose tokens the GPU chooses, each in another way, against those of
/// the CPU. Texts of which more is reported read their scores.
TEST(GenerateGpu, SampledTextsAreThoseOfTheCpu) {
  std::vector<Sampling> ways{
      {.top_k = 40},
      {.top_p = 0.9},
      {.temperature = 0.8, .top_k = 100, .top_p = 0.95},
      {.top_p = 0.7, .repetition_penalty = 1.3},
      {.top_p = 0.99, .top_p_decay = 0.9, .top_p_bound = 0.2},
      {.greedy = true, .repetition_penalty = 1.5},
      {}};
  std::vector<Report> reports;
  for (const Model& model : {golden_model("llama"), on_gpu("llama")}) {
    TextBatch batch(model, {});
    for (const bool of_prompt : {false, true}) {
      for (std::uint64_t i = 0; i < ways.size(); ++i) {
        TextRequest request{
            .prompt = {63, 218, 33},
            .sampling = ways[i],
            .most_tokens = 20};
        request.number = i;
        request.vocabulary = 500;
        request.forbidden = {{.after = 218, .token = 7}};
        request.of_prompt = of_prompt;
        batch.add(request);
      }
    }
    for (auto& [text, report] : finish(batch)) {
      reports.push_back(std::move(report));
    }
  }
  ASSERT_EQ(reports.size(), 4 * ways.size());
  std::size_t same = 0;
  for (std::size_t i = 0; i < 2 * ways.size(); ++i) {
    const Report& expected = reports[i];
    const Report& found = reports[i + 2 * ways.size()];
    if (expected.ids == found.ids) {
      ++same;
      for (std::size_t k = 0; k < expected.ids.size(); ++k) {
        EXPECT_NEAR(
            found.log_probabilities[k],
            expected.log_probabilities[k],
            1e-3);
      }
    }
  }
  EXPECT_GE(same + 2, 2 * ways.size())
      << "but for rounding all of them are the same";
}

TEST(GenerateGpu, BeamsAreThoseOfTheCpu) {
  for (const char* name : {"gpt2", "llama"}) {
    const BeamOptions options{.width = 4, .most_tokens = 20, .end = 1};
    BeamSearch on_cpu(golden_model(name), 4, {});
    BeamSearch search(on_gpu(name), 4, {});
    const Tokens prompt{63, 218, 33, 184, 481};
    const auto expected = on_cpu.after(prompt, options);
    const auto found = search.after(prompt, options);
    ASSERT_EQ(found.size(), expected.size());
    EXPECT_EQ(found[0].tokens, expected[0].tokens) << name;
    EXPECT_NEAR(found[0].score, expected[0].score, 1e-3);
  }
}

TEST(GenerateGpu, NarrowTypesAreNear) {
  const Golden golden = greedy_texts();
  const auto first_of = [&](const Model& model,
                            const TextBatchOptions& options) {
    TextBatch batch(model, options);
    batch.add(
        {.prompt = golden.prompts[0],
         .sampling = {.greedy = true},
         .most_tokens = 4});
    return finish(batch).at(0).log_probabilities[0];
  };
  const float wide = first_of(on_gpu("gpt2"), {});
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    EXPECT_NEAR(first_of(on_gpu("gpt2", type), {}), wide, 0.1);
  }
  TextBatchOptions converted;
  converted.weights = WeightType::bf16;
  EXPECT_NEAR(first_of(on_gpu("gpt2"), converted), wide, 0.1);
  converted.weights = WeightType::int8;
  EXPECT_THAT(
      error_text([&] { TextBatch(on_gpu("gpt2"), converted); }),
      ::testing::HasSubstr("int8"));
}

} // namespace
} // namespace cairn::generate::generate_gpu_test
