// Texts of the single kernel that computes a step of one text, against those of
// the graph of kernels, with models of the sizes that people load.
#include "generate/gpu_decoder.h"

#include <ATen/core/grad_mode.h>
#include <cairn/model/presets.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <tuple>
#include <vector>

namespace cairn::generate::whole_step_gpu_test {
namespace {

using Tokens = std::vector<std::int64_t>;
using Model = std::shared_ptr<models::Transformer>;

constexpr std::int64_t vocabulary = 50257;

models::ModelDescription gpt(
    std::int64_t layers,
    std::int64_t hidden,
    std::int64_t heads) {
  return model::gpt_description(
      {.layers = layers,
       .hidden = hidden,
       .heads = heads,
       .sequence = 1024,
       .vocabulary = vocabulary,
       .padded_vocabulary = 50304});
}

Model make(const models::ModelDescription& d, at::ScalarType type) {
  models::ModelOptions options;
  options.dtype = type;
  options.device = at::Device(at::kCUDA, 0);
  options.initial_std = 0.05;
  auto model = models::make_model(d, options);
  model->eval();
  return model;
}

GpuStepOptions whole_steps(bool shares_units) {
  GpuStepOptions options;
  options.whole_from = 0;
  options.shares_units = shares_units;
  return options;
}

GpuStepOptions graphs() {
  GpuStepOptions options;
  options.whole_from = never;
  return options;
}

struct Step {
  std::vector<float> scores;
  Peak peak;
};

/// Computes a text's tokens up to `end`, from `begin` on.
Step compute(
    GpuDecoder& decoder,
    const Tokens& text,
    std::int64_t begin,
    bool reads_scores) {
  EXPECT_TRUE(decoder.reserve(0, std::ssize(text)));
  const Piece piece{
      .place = 0,
      .text = text,
      .begin = begin,
      .scored = 1,
      .peak_of = reads_scores ? 0 : vocabulary};
  const auto scores = decoder.compute({&piece, 1});
  Step step{.scores = {}, .peak = decoder.peaks()[0]};
  if (reads_scores) {
    step.scores.assign(scores.begin(), scores.end());
  }
  return step;
}

double relative_distance(
    const std::vector<float>& found,
    const std::vector<float>& expected) {
  double apart = 0;
  double all = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double difference = found[i] - expected[i];
    apart += difference * difference;
    all += static_cast<double>(expected[i]) * expected[i];
  }
  return std::sqrt(apart / all);
}

struct Size {
  std::int64_t layers;
  std::int64_t hidden;
  std::int64_t heads;
};

/// 124M, 350M, 774M with fewer layers, and 1.5B.
constexpr Size sizes[] = {
    {12, 768, 12},
    {24, 1024, 16},
    {12, 1280, 20},
    {48, 1600, 25}};

class WholeStepGpu : public ::testing::TestWithParam<bool> {};

/// Whether warps share units, and the model's size.
class WholeStepGpuOfSize
    : public ::testing::TestWithParam<std::tuple<bool, Size>> {};

/// The same tokens go through both decoders: the likeliest ones of the graph.
/// Every fifth step's scores are compared as a whole, and the log-probability
/// of the likeliest token in every step.
TEST_P(WholeStepGpuOfSize, ScoresAreThoseOfTheGraph) {
  const auto& [shares_units, size] = GetParam();
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    SCOPED_TRACE(::testing::Message() << size.hidden << " " << type);
    const Model model = make(gpt(size.layers, size.hidden, size.heads), type);
    TextBatchOptions one;
    one.most_texts = 1;
    GpuDecoder parts(*model, type, one, graphs());
    GpuDecoder whole(*model, type, one, whole_steps(shares_units));
    ASSERT_FALSE(parts.has_whole_steps());
    if (!whole.has_whole_steps()) {
      GTEST_SKIP() << "this GPU has no single kernel for such a model";
    }
    Tokens text;
    for (std::int64_t i = 0; i < 30; ++i) {
      text.push_back((7919 * i + 13) % vocabulary);
    }
    const double bound = type == at::kHalf ? 4e-3 : 3e-2;
    const double highest = 10; // of a score, about
    int same = 0;
    int steps = 0;
    std::int64_t begin = 0;
    while (text.size() < 260) {
      const bool reads = text.size() % 5 == 0;
      const Step expected = compute(parts, text, begin, reads);
      const Step found = compute(whole, text, begin, reads);
      SCOPED_TRACE(::testing::Message() << "token " << text.size());
      if (reads) {
        ASSERT_LT(relative_distance(found.scores, expected.scores), bound);
      }
      EXPECT_NEAR(found.peak.score, expected.peak.score, bound * highest);
      EXPECT_NEAR(
          found.peak.score - found.peak.log_sum,
          expected.peak.score - expected.peak.log_sum,
          bound * highest);
      same += found.peak.token == expected.peak.token ? 1 : 0;
      ++steps;
      begin = std::ssize(text);
      text.push_back(expected.peak.token);
    }
    // Rounding may change which of two near ones is the likeliest.
    EXPECT_GE(same, steps - steps / 20);
  }
}

/// Keys of texts up to the longest are divided among blocks.
TEST_P(WholeStepGpu, LongTextsAreThoseOfTheGraph) {
  const Model model = make(gpt(12, 768, 12), at::kBFloat16);
  TextBatchOptions one;
  one.most_texts = 1;
  GpuDecoder parts(*model, at::kBFloat16, one, graphs());
  GpuDecoder whole(*model, at::kBFloat16, one, whole_steps(GetParam()));
  if (!whole.has_whole_steps()) {
    GTEST_SKIP() << "this GPU has no single kernel for such a model";
  }
  Tokens text;
  std::int64_t begin = 0;
  for (const std::int64_t length :
       {119, 120, 121, 122, 240, 241, 500, 501, 700, 701, 1022, 1023, 1024}) {
    while (std::ssize(text) < length) {
      text.push_back((7919 * std::ssize(text) + 13) % vocabulary);
    }
    SCOPED_TRACE(length);
    const Step expected = compute(parts, text, begin, true);
    const Step found = compute(whole, text, begin, true);
    EXPECT_LT(relative_distance(found.scores, expected.scores), 3e-2);
    begin = length;
  }
}

/// A step gives the same bits every time, also where the 16 bits that number
/// messages begin anew: 65,536 layers are 32,768 steps of this model.
TEST_P(WholeStepGpu, EveryStepGivesTheSameBits) {
  const Model model = make(gpt(2, 768, 12), at::kBFloat16);
  TextBatchOptions one;
  one.most_texts = 1;
  GpuDecoder whole(*model, at::kBFloat16, one, whole_steps(GetParam()));
  if (!whole.has_whole_steps()) {
    GTEST_SKIP() << "this GPU has no single kernel for such a model";
  }
  Tokens text;
  for (std::int64_t i = 0; i < 150; ++i) {
    text.push_back((7919 * i + 13) % vocabulary);
  }
  compute(whole, text, 0, false);
  text.push_back(5);
  const Step first = compute(whole, text, 150, true);
  for (int i = 0; i < 40000; ++i) {
    const Step again = compute(whole, text, 150, i % 1000 == 0);
    ASSERT_EQ(again.peak.token, first.peak.token) << i;
    ASSERT_EQ(again.peak.score, first.peak.score) << i;
    ASSERT_EQ(again.peak.log_sum, first.peak.log_sum) << i;
    if (i % 1000 == 0) {
      ASSERT_EQ(again.scores, first.scores) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sharing, WholeStepGpu, ::testing::Bool());
INSTANTIATE_TEST_SUITE_P(
    Sharing,
    WholeStepGpuOfSize,
    ::testing::Combine(::testing::Bool(), ::testing::ValuesIn(sizes)));

/// Models that the kernel does not compute take the graph, whatever is asked
/// for.
TEST(WholeStepOnGpu, OtherModelsTakeTheGraph) {
  models::ModelDescription llama = gpt(2, 768, 12);
  llama.family = model::ModelFamily::llama;
  llama.position = model::PositionKind::rotary;
  llama.norm = model::NormKind::rms_norm;
  llama.activation = model::ActivationKind::silu;
  llama.gated = true;
  llama.attention_bias = false;
  llama.mlp_bias = false;
  TextBatchOptions one;
  one.most_texts = 1;
  const Model model = make(llama, at::kBFloat16);
  GpuDecoder decoder(*model, at::kBFloat16, one, whole_steps(true));
  EXPECT_FALSE(decoder.has_whole_steps());
  GpuDecoder parts(*model, at::kBFloat16, one, graphs());
  const Tokens text{5, 17, 3, 8};
  const Step expected = compute(parts, text, 0, true);
  const Step found = compute(decoder, text, 0, true);
  EXPECT_LT(relative_distance(found.scores, expected.scores), 1e-6);
  // Floats are no type of the kernel's.
  const Model wide = make(gpt(2, 768, 12), at::kFloat);
  EXPECT_FALSE(
      GpuDecoder(*wide, at::kFloat, one, whole_steps(true)).has_whole_steps());
}

} // namespace
} // namespace cairn::generate::whole_step_gpu_test
