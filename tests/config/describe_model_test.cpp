#include "config/internal/describe_model.h"
#include "support/error_text.h"

#include <cairn/base/error.h>
#include <cairn/config/config.h>
#include <cairn/model/parameters.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace cairn::config::describe_model_test {
namespace {

using model::ModelDescription;
using model::ModelKind;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;

Flags flags_of(const Words& more, std::int64_t world = 1) {
  Words words{
      "--num-layers",
      "4",
      "--hidden-size",
      "64",
      "--num-attention-heads",
      "8",
      "--seq-length",
      "32",
      "--vocab-size",
      "1000"};
  words.insert(words.end(), more.begin(), more.end());
  return Config::resolve({.flags = words, .world_size = world}).flags;
}

// The formula of Megatron-LM's paper, with the final norm that it leaves out.
std::int64_t by_formula(
    std::int64_t l,
    std::int64_t h,
    std::int64_t vocabulary,
    std::int64_t sequence) {
  return l * (12 * h * h + 13 * h) + (vocabulary + sequence) * h + 2 * h;
}

/// The model of `flags`, with the vocabulary of the flags.
ModelDescription described(ModelKind kind, const Flags& flags) {
  return describe_model(
      kind,
      flags,
      expected_vocabulary(kind, flags.tokenizer));
}

ModelDescription gpt(const Words& more = {}, std::int64_t world = 1) {
  return described(ModelKind::gpt, flags_of(more, world));
}

/// Counts with the vocabulary's padding.
model::ParameterCount count(const ModelDescription& description) {
  return model::count_parameters(model::with_padding(description));
}

TEST(DescribeModel, HasThePapersParameters) {
  const ModelDescription small = gpt();
  EXPECT_EQ(small.vocabulary, 1000);
  EXPECT_EQ(small.padded_vocabulary, 1024);
  EXPECT_EQ(count(small).all, by_formula(4, 64, 1024, 32));
  const ModelDescription gpt3 =
      gpt({"--num-layers",
           "96",
           "--hidden-size",
           "12288",
           "--num-attention-heads",
           "96",
           "--seq-length",
           "2048",
           "--vocab-size",
           "50257",
           "--tensor-model-parallel-size",
           "8"},
          8);
  EXPECT_EQ(gpt3.padded_vocabulary, 51200);
  EXPECT_EQ(count(gpt3).all, by_formula(96, 12288, 51200, 2048));
}

TEST(DescribeModel, IsMegatronsGptByDefault) {
  const ModelDescription model = gpt();
  EXPECT_EQ(model.family, model::ModelFamily::gpt2);
  EXPECT_EQ(model.layers, 4);
  EXPECT_EQ(model.ffn, 256);
  EXPECT_TRUE(model.tied_head);
  EXPECT_EQ(model.dropout, 0.1);
}

TEST(DescribeModel, PadsForTensorParallelRanks) {
  const auto padded = [](std::int64_t ranks) {
    const auto flags = flags_of(
        {"--tensor-model-parallel-size", std::to_string(ranks)},
        ranks);
    return describe_model(ModelKind::gpt, flags, 50257).padded_vocabulary;
  };
  EXPECT_EQ(padded(1), 50304);
  EXPECT_EQ(padded(2), 50432);
}

TEST(DescribeModel, IsALlamaWithItsFlags) {
  const Words llama{
      "--normalization",
      "RMSNorm",
      "--use-rotary-position-embeddings",
      "--swiglu",
      "--disable-bias-linear",
      "--untie-embeddings-and-output-weights"};
  const ModelDescription model = gpt(llama);
  EXPECT_EQ(model.family, model::ModelFamily::llama);
  EXPECT_EQ(model.norm, model::NormKind::rms_norm);
  EXPECT_EQ(model.position, model::PositionKind::rotary);
  EXPECT_TRUE(model.gated);
  EXPECT_EQ(model.activation, model::ActivationKind::silu);
  EXPECT_FALSE(model.attention_bias);
  EXPECT_FALSE(model.tied_head);
  EXPECT_EQ(model.ffn, 128);
  Words wide = llama;
  wide.insert(wide.end(), {"--ffn-hidden-size", "172"});
  EXPECT_EQ(gpt(wide).ffn, 172);
}

TEST(DescribeModel, HasExperts) {
  EXPECT_FALSE(gpt({"--num-experts", "1"}).experts);
  const ModelDescription model = gpt(
      {"--num-experts",
       "4",
       "--topk",
       "2",
       "--mlp-type",
       "residual",
       "--moe-noisy-gate-policy",
       "Jitter",
       "--disable-moe-token-dropping"});
  ASSERT_TRUE(model.experts);
  EXPECT_EQ(
      *model.experts,
      (model::ExpertsDescription{
          .counts = {4},
          .top_k = 2,
          .residual = true,
          .drop_tokens = false,
          .noise = model::RouterNoise::jitter}));
}

TEST(DescribeModel, TakesMegatronsWordsForOtherFamilies) {
  const Words qwen{
      "--normalization",
      "RMSNorm",
      "--position-embedding-type",
      "rope",
      "--swiglu",
      "--disable-bias-linear"};
  const auto with = [&](const Words& more) {
    Words words = qwen;
    words.insert(words.end(), more.begin(), more.end());
    return gpt(words);
  };
  const ModelDescription second = with({"--add-qkv-bias"});
  EXPECT_EQ(second.family, model::ModelFamily::llama);
  EXPECT_TRUE(second.query_key_value_bias);
  EXPECT_FALSE(second.attention_bias);
  EXPECT_FALSE(second.mlp_bias);
  const ModelDescription third = with({"--qk-layernorm"});
  EXPECT_TRUE(third.query_key_norm);
  EXPECT_FALSE(third.query_key_value_bias);
  EXPECT_FALSE(gpt({"--add-qkv-bias"}).query_key_value_bias); // all are there
  EXPECT_TRUE(gpt({"--add-qkv-bias"}).attention_bias);

  const ModelDescription neox = gpt(
      {"--use-rotary-position-embeddings",
       "--rotary-percent",
       "0.5",
       "--use-parallel-residual"});
  EXPECT_EQ(neox.family, model::ModelFamily::gpt2);
  EXPECT_EQ(neox.rotary_size, neox.head_size / 2);
  EXPECT_TRUE(neox.parallel_residual);
  EXPECT_EQ(neox.activation, model::ActivationKind::gelu_tanh);
  EXPECT_EQ(
      gpt({"--no-bias-gelu-fusion"}).activation,
      model::ActivationKind::gelu);

  const ModelDescription stretched =
      with({"--use-rope-scaling", "--rope-scaling-factor", "32"});
  ASSERT_TRUE(stretched.rope_scaling);
  EXPECT_EQ(
      *stretched.rope_scaling,
      (model::RopeScaling{"llama3", 32, 1, 4, 8192}));
}

TEST(DescribeModel, RefusesPartsThatTheModelDoesNotHave) {
  const auto refusal = [](ModelKind kind, const Words& words) {
    return error_text([&] { described(kind, flags_of(words)); });
  };
  EXPECT_THAT(
      refusal(ModelKind::gpt, {"--rotary-percent", "0.5"}),
      HasSubstr("--rotary-percent: the model has no rotary positions"));
  EXPECT_THAT(
      refusal(ModelKind::gpt, {"--use-rope-scaling"}),
      HasSubstr("--use-rope-scaling: the model has no rotary positions"));
  EXPECT_THAT(
      refusal(
          ModelKind::gpt,
          {"--position-embedding-type", "rope", "--rotary-percent", "0.1"}),
      HasSubstr("an even number of elements"));
  EXPECT_THAT(
      refusal(ModelKind::gpt, {"--openai-gelu", "--no-bias-gelu-fusion"}),
      HasSubstr("two forms of GELU"));
  EXPECT_THAT(
      refusal(ModelKind::bert, {"--qk-layernorm"}),
      HasSubstr("--qk-layernorm: a bert does not have this"));
  EXPECT_THAT(
      refusal(ModelKind::t5, {"--use-parallel-residual"}),
      HasSubstr("--use-parallel-residual: a t5 does not have this"));
}

TEST(DescribeModel, HasBertsHeads) {
  const auto with = described(ModelKind::bert, flags_of({}));
  EXPECT_TRUE(with.masked_head);
  EXPECT_TRUE(with.next_sentence_head);
  const auto without =
      described(ModelKind::bert, flags_of({"--bert-no-binary-head"}));
  EXPECT_FALSE(without.next_sentence_head);
}

TEST(DescribeModel, TheVocabularyIsThatOfThePublishedFiles) {
  const auto vocabulary = [](ModelKind kind, const Words& words) {
    Flags flags = flags_of(words);
    flags.tokenizer.vocab_size.reset();
    return expected_vocabulary(kind, flags.tokenizer);
  };
  EXPECT_EQ(vocabulary(ModelKind::gpt, {"--merge-file", "merges.txt"}), 50257);
  const Words words{"--tokenizer-type", "BertWordPieceLowerCase"};
  EXPECT_EQ(vocabulary(ModelKind::bert, words), 30522);
  EXPECT_EQ(vocabulary(ModelKind::t5, words), 30622);
  EXPECT_THAT(
      error_text([&] { vocabulary(ModelKind::gpt, {}); }),
      HasSubstr("--vocab-size"));
}

TEST(DescribeModel, WhatCannotBeIsRefused) {
  const auto refusal = [](const Words& words, std::int64_t world = 1) {
    return error_text([&] { gpt(words, world); });
  };
  EXPECT_THAT(
      error_text([] { describe_model(ModelKind::gpt, Flags(), 512); }),
      HasSubstr("--num-layers: the size of the model is not said"));
  EXPECT_THAT(
      refusal({"--tensor-model-parallel-size", "3"}, 3),
      HasSubstr("8 do not divide over 3"));
  EXPECT_THAT(refusal({"--num-layers", "3001"}), HasSubstr("use 1 to 3000"));
  EXPECT_THAT(
      refusal({"--hidden-size", "4611686018427387904"}),
      HasSubstr("--hidden-size"));
  EXPECT_THAT(
      refusal({"--kv-channels", "4000000"}),
      HasSubstr("--kv-channels"));
  EXPECT_THAT(
      refusal({"--make-vocab-size-divisible-by", "9000000000000000000"}),
      HasSubstr("--make-vocab-size-divisible-by"));
  EXPECT_THAT(
      refusal({"--num-experts", "4000000000000000000"}),
      HasSubstr("--num-experts"));
  EXPECT_THAT(
      refusal({"--num-experts", "8", "4", "2"}),
      HasSubstr("3 numbers, but 2 of 4 layers have experts"));
  EXPECT_THAT(
      refusal({"--num-experts", "8", "--expert-interval", "5"}),
      HasSubstr("none of 4 layers"));
  EXPECT_THAT(
      error_text([] {
        described(
            ModelKind::t5,
            flags_of({"--num-experts", "8", "4", "--decoder-num-layers", "8"}));
      }),
      HasSubstr("2 numbers, but 4 of 8 layers have experts"));
  Flags without = flags_of({});
  without.data.seq_length.reset();
  EXPECT_THAT(
      error_text([&] { described(ModelKind::gpt, without); }),
      HasSubstr("--seq-length: the size of the model is not said"));
}

TEST(DescribeModel, ExpertsAreCounted) {
  const model::ParameterCount dense = count(gpt());
  EXPECT_EQ(dense.active, dense.all);
  constexpr std::int64_t mlp = 2 * 64 * 256 + 256 + 64;
  const auto one = count(gpt({"--num-experts", "8", "--topk", "2"}));
  EXPECT_EQ(one.all, dense.all + 2 * (7 * mlp + 8 * 64));
  EXPECT_EQ(one.active, dense.all + 2 * (mlp + 8 * 64));
  const auto residual =
      count(gpt({"--num-experts", "1", "4", "--mlp-type", "residual"}));
  EXPECT_EQ(residual.all, dense.all + 4 * mlp + 4 * 64 + 2 * 64 + 2);
  EXPECT_EQ(residual.active, residual.all - 3 * mlp);
}

} // namespace
} // namespace cairn::config::describe_model_test
