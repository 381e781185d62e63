// The decoder for GPUs against whole texts that the model computes itself. It
// also runs on the stand-in for a GPU (tests/kernels/cuda_on_cpu).
#include "generate/gpu_decoder.h"
#include "generate/choose_token.h"
#include "generate/repetition_penalty.h"
#include "generate/whole_text_decoder.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <cairn/model/presets.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <random>
#include <utility>
#include <vector>

namespace cairn::generate::gpu_decoder_test {
namespace {

using Tokens = std::vector<std::int64_t>;
using Model = std::shared_ptr<models::Transformer>;

#ifdef CAIRN_CUDA_ON_CPU
constexpr at::DeviceType device = at::kCPU;
#else
constexpr at::DeviceType device = at::kCUDA;
#endif

/// Relative distance from the model's own scores that rounding explains.
double bound_of(at::ScalarType type) {
  return type == at::kFloat ? 1e-4 : type == at::kHalf ? 1e-2 : 5e-2;
}

models::ModelDescription gpt(std::int64_t positions = 48) {
  return model::gpt_description(
      {.layers = 2,
       .hidden = 40,
       .heads = 2,
       .sequence = positions,
       .vocabulary = 61,
       .padded_vocabulary = 64});
}

models::ModelDescription llama(
    std::int64_t head_size = 10,
    std::int64_t positions = 48) {
  models::ModelDescription d = gpt(positions);
  d.family = model::ModelFamily::llama;
  d.position = model::PositionKind::rotary;
  d.norm = model::NormKind::rms_norm;
  d.activation = model::ActivationKind::silu;
  d.gated = true;
  d.heads = 4;
  d.head_size = head_size;
  d.key_value_heads = 2;
  d.attention_bias = false;
  d.mlp_bias = false;
  return d;
}

std::vector<models::ModelDescription> descriptions() {
  std::vector<models::ModelDescription> all{gpt(), gpt(), gpt(), llama()};
  all[1].activation = model::ActivationKind::gelu_tanh;
  all[1].tied_head = false;
  all[1].padded_vocabulary = 61;
  all[2].activation = model::ActivationKind::relu;
  all[2].attention_bias = false;
  all[2].mlp_bias = false;
  for (const char* scaling : {"linear", "llama3"}) {
    all.push_back(llama(20));
    all.back().rope_scaling = model::RopeScaling{
        .kind = scaling,
        .factor = 4,
        .low_frequency_factor = 1,
        .high_frequency_factor = 4,
        .original_positions = 16};
  }
  return all;
}

Model make(const models::ModelDescription& d, at::ScalarType type) {
  models::ModelOptions options;
  options.initial_std = 0.2;
  options.dtype = type;
  options.device = at::Device(device);
  if (device == at::kCUDA) {
    options.device = at::Device(device, 0);
  }
  auto model = models::make_model(d, options);
  model->eval();
  return model;
}

Tokens random_text(std::mt19937& random, std::int64_t length) {
  Tokens text;
  for (std::int64_t i = 0; i < length; ++i) {
    text.push_back(static_cast<std::int64_t>(random() % 61));
  }
  return text;
}

/// The model's own scores of every token of a text, [tokens, vocabulary].
at::Tensor whole(const Model& model, const Tokens& text) {
  const at::NoGradGuard no_grad;
  WholeTextDecoder decoder(model);
  const Piece piece{0, text, 0, std::ssize(text)};
  const auto scores = decoder.compute({&piece, 1});
  return at::tensor(
             std::vector<float>(scores.begin(), scores.end()),
             at::TensorOptions(at::kFloat))
      .view({std::ssize(text), -1});
}

class Rows {
 public:
  explicit Rows(std::span<const float> scores, std::int64_t columns)
      : scores_(at::tensor(
                    std::vector<float>(scores.begin(), scores.end()),
                    at::TensorOptions(at::kFloat))
                    .view({-1, columns})) {}
  at::Tensor row(std::int64_t i) const { return scores_[i]; }

 private:
  at::Tensor scores_;
};

double distance(const at::Tensor& found, const at::Tensor& expected) {
  return ((found - expected).norm() / expected.norm()).item<double>();
}

void expect_close(
    const at::Tensor& found,
    const at::Tensor& expected,
    double bound) {
  EXPECT_LT(distance(found, expected), bound);
}

/// Texts that are computed by a decoder in steps, and what each step's scores
/// must be.
class Followed {
 public:
  Followed(const Model& model, GpuDecoder& decoder)
      : model_(model),
        decoder_(decoder),
        bound_(bound_of(model->parameters().front().scalar_type())) {}

  void add(std::size_t place, Tokens text) {
    texts_.push_back({place, text, whole(model_, text)});
  }

  /// Rounding may give a token to another expert, so not every row is near.
  void allow_other_experts() { every_row_ = false; }
  /// The part of all rows that are near.
  double part_near() const {
    return static_cast<double>(near_) / static_cast<double>(rows_);
  }

  /// Computes tokens up to `ends` of the texts; texts whose end is reached
  /// already are left out.
  void step(const std::vector<std::int64_t>& ends, std::int64_t scored) {
    std::vector<Piece> pieces;
    std::vector<std::size_t> which;
    for (std::size_t i = 0; i < texts_.size(); ++i) {
      Text& text = texts_[i];
      if (ends[i] <= text.computed) {
        continue;
      }
      ASSERT_TRUE(decoder_.reserve(text.place, ends[i]));
      pieces.push_back(
          {.place = text.place,
           .text =
               std::span(text.tokens).first(static_cast<std::size_t>(ends[i])),
           .begin = text.computed,
           .scored = std::min(scored, ends[i] - text.computed)});
      which.push_back(i);
      text.computed = ends[i];
    }
    const std::int64_t columns = model_->description().vocabulary;
    const Rows rows(decoder_.compute(pieces), columns);
    const auto peaks = decoder_.peaks();
    std::int64_t row = 0;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      for (std::int64_t k = 0; k < pieces[i].scored; ++k, ++row) {
        const std::int64_t token = ends[which[i]] - pieces[i].scored + k;
        SCOPED_TRACE(
            ::testing::Message() << "text " << which[i] << " token " << token);
        const at::Tensor found = rows.row(row);
        const at::Tensor& expected = texts_[which[i]].scores[token];
        if (every_row_) {
          expect_close(found, expected, bound_);
        }
        ++rows_;
        near_ += distance(found, expected) < bound_ ? 1 : 0;
        const Peak& peak = peaks[static_cast<std::size_t>(row)];
        EXPECT_EQ(peak.token, found.argmax().item<std::int64_t>());
        EXPECT_EQ(peak.score, found.max().item<float>());
        EXPECT_NEAR(peak.log_sum, found.logsumexp(0).item<float>(), 1e-4);
      }
    }
  }

 private:
  struct Text {
    std::size_t place;
    Tokens tokens;
    at::Tensor scores;
    std::int64_t computed = 0;
  };
  Model model_;
  GpuDecoder& decoder_;
  double bound_;
  bool every_row_ = true;
  int rows_ = 0;
  int near_ = 0;
  std::vector<Text> texts_;
};

class GpuDecoderOf : public ::testing::TestWithParam<at::ScalarType> {};

TEST_P(GpuDecoderOf, EveryKindOfModel) {
  const at::ScalarType type = GetParam();
  std::mt19937 random(1);
  for (const models::ModelDescription& d : descriptions()) {
    SCOPED_TRACE(d.head_size);
    const Model model = make(d, type);
    GpuDecoder decoder(*model, type, {.most_texts = 3, .page_tokens = 5});
    Followed texts(model, decoder);
    for (const std::size_t place : {2, 0, 1}) {
      texts.add(place, random_text(random, 24));
    }
    texts.step({7, 1, 0}, 1);
    texts.step({8, 5, 12}, 3); // a token beside two pieces
    for (int i = 1; i <= 4; ++i) {
      texts.step({8 + i, 5 + i, 12 + i}, 1);
    }
    texts.step({24, 24, 17}, 24);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Table,
    GpuDecoderOf,
    ::testing::Values(at::kFloat, at::kBFloat16, at::kHalf));

TEST_P(GpuDecoderOf, ExpertsOfKeptTexts) {
  const at::ScalarType type = GetParam();
  std::mt19937 random(10);
  std::vector<models::ModelDescription> all{gpt(), gpt(), gpt()};
  all[0].experts = {.counts = {4}, .interval = 2};
  all[1].experts = {.counts = {4}, .interval = 1, .top_k = 2};
  all[2].experts = {.counts = {3}, .interval = 1, .top_k = 3, .residual = true};
  for (const models::ModelDescription& d : all) {
    SCOPED_TRACE(d.experts->top_k);
    const Model model = make(d, type);
    ASSERT_TRUE(GpuDecoder::takes(d));
    GpuDecoder decoder(*model, type, {.most_texts = 3, .page_tokens = 5});
    Followed texts(model, decoder);
    if (type != at::kFloat) {
      texts.allow_other_experts();
    }
    for (const std::size_t place : {2, 0, 1}) {
      texts.add(place, random_text(random, 24));
    }
    texts.step({7, 1, 0}, 1);
    texts.step({8, 5, 12}, 3);
    for (int i = 1; i <= 6; ++i) {
      texts.step({8 + i, 5 + i, 12 + i}, 1);
    }
    EXPECT_GE(texts.part_near(), 0.7);
  }
}

/// A text has other angles once it is longer than the original context.
TEST(GpuDecoder, LongRopeTurnsLongTextsOtherwise) {
  std::mt19937 random(11);
  models::ModelDescription d = llama(16);
  d.rope_scaling = model::RopeScaling{
      .kind = "longrope",
      .factor = 3,
      .original_positions = 16,
      .longrope = model::LongScaling{
          .short_factors = {1, 1, 1.1, 1.2, 1.2, 1.3, 1.4, 1.5},
          .long_factors = {2, 2.5, 3, 3.5, 4, 5, 6, 7},
          .attention_factor = 1.2}};
  for (const at::ScalarType type : {at::kFloat}) {
    const Model model = make(d, type);
    ASSERT_TRUE(GpuDecoder::takes(d));
    GpuDecoder decoder(*model, type, {.most_texts = 2});
    WholeTextDecoder whole_texts(model);
    const Tokens grown = random_text(random, 40);
    const Tokens steady = random_text(random, 12);
    const auto expect_scores = [&](std::int64_t begin, std::int64_t end) {
      SCOPED_TRACE(end);
      // A text that grows, beside one that stays short.
      const auto all = std::span(grown).first(static_cast<std::size_t>(end));
      const auto short_end = std::min<std::int64_t>(end, 12);
      std::vector<Piece> pieces{
          {.place = 0, .text = all, .begin = begin, .scored = 1, .all = all},
          {.place = 1,
           .text = std::span(steady).first(static_cast<std::size_t>(short_end)),
           .begin = begin == 0 ? 0 : short_end - 1,
           .scored = 1,
           .all = steady}};
      ASSERT_TRUE(decoder.reserve(0, end) && decoder.reserve(1, short_end));
      const Rows found(decoder.compute(pieces), 61);
      for (Piece& piece : pieces) {
        piece.begin = 0;
      }
      const Rows expected(whole_texts.compute(pieces), 61);
      for (const std::int64_t i : {0, 1}) {
        expect_close(found.row(i), expected.row(i), bound_of(type));
      }
    };
    expect_scores(0, 9);
    for (const std::int64_t end : {10, 11, 12, 15, 16}) {
      expect_scores(end == 15 ? 12 : end - 1, end);
    }
    decoder.release(0); // beyond the original context: all keys turn anew
    decoder.release(1);
    expect_scores(0, 17);
    expect_scores(17, 18);
    expect_scores(18, 40);
  }
}

TEST(GpuDecoder, ComputesBatchesOfAllSizes) {
  std::mt19937 random(2);
  const Model model = make(llama(), at::kBFloat16);
  for (const bool plain : {false, true}) {
    GpuStepOptions step;
    step.records = !plain;
    step.early = !plain;
    step.fetches_ahead = !plain;
    step.copied_from = plain ? 1 << 30 : 0;
    step.few_rows = plain ? 0 : 8;
    GpuDecoder decoder(*model, at::kBFloat16, {.most_texts = 13}, step);
    EXPECT_EQ(decoder.longest(), 48);
    Followed texts(model, decoder);
    std::vector<std::int64_t> ends;
    for (std::size_t i = 0; i < 13; ++i) {
      texts.add(i, random_text(random, 30));
      ends.push_back(static_cast<std::int64_t>(2 + i));
    }
    texts.step(ends, 1);
    for (const std::size_t count : {1, 2, 3, 5, 8, 11, 13, 1, 13, 3}) {
      for (std::size_t i = 0; i < count; ++i) {
        ++ends[i];
      }
      texts.step(ends, 1);
    }
  }
}

TEST(GpuDecoder, LongPromptsAreComputedInTiles) {
  std::mt19937 random(3);
  models::ModelDescription d = llama(16, 256);
  d.layers = 1;
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    const Model model = make(d, type);
    GpuDecoder decoder(*model, type, {.most_texts = 4});
    Followed texts(model, decoder);
    for (const std::size_t place : {0, 1, 2, 3}) {
      texts.add(place, random_text(random, 160));
    }
    // Two alike, a shorter one, and a piece for single tokens.
    texts.step({96, 96, 101, 9}, 2);
    texts.step({97, 160, 150, 20}, 1);
    texts.step({98, 160, 151, 21}, 1);
  }
}

/// Whole prompts whose heads are read where they are, and then pieces of them
/// whose heads are copied.
TEST(GpuDecoder, LongPromptsOfHeadsThatAreNotTurned) {
  std::mt19937 random(12);
  models::ModelDescription d = gpt(256);
  d.layers = 2;
  d.hidden = 48;
  d.heads = 3;
  d.key_value_heads = 3;
  d.head_size = 16;
  d.activation = model::ActivationKind::gelu_tanh;
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    const Model model = make(d, type);
    GpuDecoder decoder(*model, type, {.most_texts = 3});
    Followed texts(model, decoder);
    for (const std::size_t place : {0, 1, 2}) {
      texts.add(place, random_text(random, 160));
    }
    texts.step({96, 96, 101}, 2);
    texts.step({97, 97, 102}, 1);
    texts.step({98, 160, 150}, 1);
    texts.step({99, 160, 151}, 1);
  }
}

TEST(GpuDecoder, CopiesOfATextGoTheirOwnWays) {
  std::mt19937 random(4);
  const Model model = make(gpt(), at::kFloat);
  // Three pages for each of two texts, and one more.
  GpuDecoder decoder(
      *model,
      at::kFloat,
      {.most_texts = 3, .page_tokens = 4, .cache_tokens = 28});
  EXPECT_EQ(decoder.longest(), 28);
  const Tokens start = random_text(random, 10);
  Tokens one = start;
  Tokens two = start;
  one.insert(one.end(), {3, 5});
  two.insert(two.end(), {7, 1});
  ASSERT_TRUE(decoder.reserve(0, 10));
  const Piece prompt{.place = 0, .text = start, .begin = 0, .scored = 0};
  decoder.compute({&prompt, 1});
  ASSERT_TRUE(decoder.copy(0, 2, 10));
  const at::Tensor expected_one = whole(model, one);
  const at::Tensor expected_two = whole(model, two);
  for (std::size_t end = 11; end <= 12; ++end) {
    ASSERT_TRUE(decoder.reserve(0, static_cast<std::int64_t>(end)));
    ASSERT_TRUE(decoder.reserve(2, static_cast<std::int64_t>(end)));
    const auto begin = static_cast<std::int64_t>(end) - 1;
    const std::vector<Piece> pieces{
        {2, std::span(two).first(end), begin, 1},
        {0, std::span(one).first(end), begin, 1}};
    const Rows rows(decoder.compute(pieces), 61);
    expect_close(rows.row(0), expected_two[begin], 1e-4);
    expect_close(rows.row(1), expected_one[begin], 1e-4);
  }
  // Two full pages are shared: 4 of 7 are taken, 3 are left.
  EXPECT_FALSE(decoder.reserve(1, 13));
  EXPECT_TRUE(decoder.reserve(1, 12));
  EXPECT_FALSE(decoder.reserve(0, 13));
  decoder.release(1);
  decoder.release(2);
  // The shared pages still belong to the first text.
  EXPECT_TRUE(decoder.reserve(0, 24));
  EXPECT_FALSE(decoder.reserve(2, 5));
}

TEST(GpuDecoder, LongTextsShareTheirKeysAmongBlocks) {
  std::mt19937 random(5);
  models::ModelDescription d = gpt(400);
  d.layers = 1;
  const Model model = make(d, at::kBFloat16);
  GpuDecoder decoder(*model, at::kBFloat16, {.most_texts = 2});
  Followed texts(model, decoder);
  texts.add(0, random_text(random, 400));
  texts.add(1, random_text(random, 400));
  texts.step({250, 3}, 1);
  texts.step({251, 3}, 1);
  texts.step({252, 4}, 1);
  texts.step({253, 5}, 1);
  texts.step({254, 6}, 1);
  texts.step({400, 6}, 5);
}

/// A model whose steps of one text are a single kernel.
models::ModelDescription plain(
    std::int64_t hidden,
    std::int64_t heads,
    std::int64_t ffn) {
  models::ModelDescription d = gpt(400);
  d.layers = 2;
  d.hidden = hidden;
  d.heads = heads;
  d.key_value_heads = heads;
  d.head_size = hidden / heads;
  d.ffn = ffn;
  return d;
}

TEST(GpuDecoder, OneTextIsASingleKernel) {
  std::mt19937 random(8);
  std::vector<models::ModelDescription> all{
      plain(128, 2, 320),
      plain(128, 1, 64),
      plain(192, 8, 192)};
  all[0].activation = model::ActivationKind::gelu_tanh;
  all[1].attention_bias = false;
  all[1].mlp_bias = false;
  all[1].tied_head = false;
  all[2].activation = model::ActivationKind::relu;
  at::ScalarType type = at::kBFloat16;
  for (std::size_t i = 0; i < all.size() + 1; ++i) {
    const models::ModelDescription& d = all[i % all.size()];
    SCOPED_TRACE(::testing::Message() << d.hidden << " " << d.heads);
    const Model model = make(d, type);
    GpuDecoder decoder(
        *model,
        type,
        {.most_texts = 2},
        {.whole_from = 0, .shares_units = i < all.size()});
    ASSERT_TRUE(decoder.has_whole_steps());
    Followed texts(model, decoder);
    texts.add(1, random_text(random, 20));
    texts.add(0, random_text(random, 320));
    texts.step({1, 0}, 1); // the first token of a text
    texts.step({2, 0}, 1);
    texts.step({14, 0}, 1);
    texts.step({15, 0}, 1);
    texts.step({15, 300}, 1); // several blocks share the keys
    texts.step({15, 301}, 1);
    texts.step({16, 302}, 1); // two texts: not one kernel
    texts.step({17, 302}, 1); // across a page
    type = type == at::kHalf ? at::kBFloat16 : at::kHalf;
  }
}

TEST(GpuDecoder, OtherModelsAreNotASingleKernel) {
  const GpuStepOptions parts{.whole_from = never};
  const GpuStepOptions from_larger{.whole_from = 128 * 320 * 2 + 1};
  const GpuStepOptions from_this{.whole_from = 128 * 320 * 2};
  const TextBatchOptions one{.most_texts = 1};
  const auto is_whole = [&](const models::ModelDescription& d,
                            at::ScalarType type,
                            const GpuStepOptions& step = {.whole_from = 0}) {
    return GpuDecoder(*make(d, type), type, one, step).has_whole_steps();
  };
  EXPECT_TRUE(is_whole(plain(128, 2, 320), at::kBFloat16));
  EXPECT_FALSE(is_whole(plain(128, 2, 320), at::kBFloat16, parts));
  EXPECT_FALSE(is_whole(plain(128, 2, 320), at::kBFloat16, from_larger));
  EXPECT_TRUE(is_whole(plain(128, 2, 320), at::kBFloat16, from_this));
  EXPECT_FALSE(is_whole(plain(128, 2, 320), at::kFloat));
  EXPECT_FALSE(is_whole(plain(128, 2, 340), at::kBFloat16));
  EXPECT_FALSE(is_whole(plain(256, 1, 320), at::kBFloat16));
  EXPECT_FALSE(is_whole(gpt(), at::kBFloat16));
  EXPECT_FALSE(is_whole(llama(32), at::kBFloat16));
}

TEST(GpuDecoder, WeightsAreConvertedWhereAsked) {
  std::mt19937 random(6);
  const Model wide = make(gpt(), at::kFloat);
  GpuDecoder decoder(*wide, at::kBFloat16, {.most_texts = 1});
  const Tokens text = random_text(random, 6);
  ASSERT_TRUE(decoder.reserve(0, 6));
  const Piece piece{0, text, 0, 1};
  const Rows rows(decoder.compute({&piece, 1}), 61);
  const at::Tensor expected = whole(wide, text)[5];
  expect_close(rows.row(0), expected, 5e-2);
  EXPECT_FALSE(rows.row(0).equal(expected));
}

TEST(GpuDecoder, TellsPeaksOfTheFirstTokensAlone) {
  std::mt19937 random(7);
  const Model model = make(gpt(), at::kFloat);
  GpuDecoder decoder(*model, at::kFloat, {.most_texts = 2});
  const Tokens text = random_text(random, 6);
  const at::Tensor expected = whole(model, text);
  ASSERT_TRUE(decoder.reserve(0, 6));
  for (const std::int64_t end : {5, 6}) { // a prompt, then a token
    const Piece piece{
        .place = 0,
        .text = std::span(text).first(static_cast<std::size_t>(end)),
        .begin = end == 5 ? 0 : 5,
        .scored = 1,
        .peak_of = 9};
    decoder.compute({&piece, 1});
    const Peak& peak = decoder.peaks()[0];
    EXPECT_EQ(
        peak.token,
        expected[end - 1].narrow(0, 0, 9).argmax().item<std::int64_t>());
    EXPECT_NEAR(
        peak.log_sum,
        expected[end - 1].logsumexp(0).item<float>(),
        1e-3);
  }
}

/// What a decoder chooses, against choose_token() for the rows that another one
/// gives to be read.
TEST(GpuDecoder, ChoosesTokens) {
  std::mt19937 random(9);
  const Model model = make(gpt(), at::kFloat);
  GpuDecoder reads(*model, at::kFloat, {.most_texts = 5});
  GpuDecoder chooses(*model, at::kFloat, {.most_texts = 5});
  const std::vector<Sampling> ways{
      {.top_p = 0.8},
      {.greedy = true},
      {.temperature = 0.8, .top_k = 5, .repetition_penalty = 1.5},
      {.greedy = true, .repetition_penalty = 3},
      {}};
  std::vector<Tokens> texts;
  for (std::size_t i = 0; i < ways.size(); ++i) {
    texts.push_back(random_text(random, 12));
  }
  for (std::int64_t end = 6; end <= 12; ++end) { // a prompt, then tokens
    std::vector<Piece> pieces;
    for (std::size_t i = 0; i < ways.size(); ++i) {
      ASSERT_TRUE(reads.reserve(i, end) && chooses.reserve(i, end));
      pieces.push_back(
          {.place = i,
           .text = std::span(texts[i]).first(static_cast<std::size_t>(end)),
           .begin = end == 6 ? 0 : end - 1,
           .scored = 1});
    }
    const auto scores = reads.compute(pieces);
    const Rows rows(scores, 61);
    std::vector<Tokens> distinct;
    std::vector<std::int64_t> expected;
    for (std::size_t i = 0; i < ways.size(); ++i) {
      const std::int64_t among = i == 0 ? 50 : 61;
      distinct.emplace_back();
      for (const std::int64_t token : pieces[i].text) {
        if (std::ranges::find(distinct[i], token) == distinct[i].end()) {
          distinct[i].push_back(token);
        }
      }
      std::vector<float> row(
          scores.begin() + static_cast<std::ptrdiff_t>(61 * i),
          scores.begin() + static_cast<std::ptrdiff_t>(61 * i) + among);
      penalize(row, distinct[i], ways[i].repetition_penalty);
      row[3] = i == 4 ? -std::numeric_limits<float>::infinity() : row[3];
      const double chance = static_cast<double>(random() % 1000) / 1000;
      expected.push_back(choose_token(row, ways[i], chance));
      pieces[i].choice = TokenChoice{
          .sampling = ways[i],
          .chance = chance,
          .among = among,
          .penalized = distinct[i]};
      if (i == 4) {
        pieces[i].choice->never = 3;
      }
    }
    // Beside a text whose likeliest token is all that is read, and one whose
    // scores are.
    pieces[1].choice.reset();
    pieces[1].peak_of = 61;
    if (end % 2 == 0) {
      pieces[4].choice.reset();
    }
    const Rows read(chooses.compute(pieces), 61);
    for (std::size_t i = 0; i < ways.size(); ++i) {
      SCOPED_TRACE(::testing::Message() << "token " << end << " text " << i);
      const Peak& peak = chooses.peaks()[i];
      const at::Tensor row = rows.row(static_cast<std::int64_t>(i));
      if (i == 4 && end % 2 == 0) {
        expect_close(read.row(4), row, 1e-6);
        continue;
      }
      EXPECT_EQ(peak.token, expected[i]);
      EXPECT_NEAR(peak.score, row[expected[i]].item<float>(), 1e-4);
      EXPECT_NEAR(peak.log_sum, row.logsumexp(0).item<float>(), 1e-4);
    }
  }
}

} // namespace
} // namespace cairn::generate::gpu_decoder_test
