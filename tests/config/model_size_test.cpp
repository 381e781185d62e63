// What the layers come to is compared with the models themselves in
// tests/pretrain/recipes_test.cpp.

#include "support/error_text.h"

#include <cairn/base/error.h>
#include <cairn/config/config.h>
#include <cairn/config/model_size.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace cairn::config::model_size_test {
namespace {

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

TEST(ModelSize, OfGptIsThePapers) {
  const ModelSize small = model_size(ModelKind::gpt, flags_of({}));
  EXPECT_EQ(small.vocabulary, 1000);
  EXPECT_EQ(small.padded_vocabulary, 1024);
  EXPECT_EQ(small.parameters, by_formula(4, 64, 1024, 32));
  const ModelSize gpt3 = model_size(
      ModelKind::gpt,
      flags_of(
          {"--num-layers",
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
          8));
  EXPECT_EQ(gpt3.padded_vocabulary, 51200);
  EXPECT_EQ(gpt3.parameters, by_formula(96, 12288, 51200, 2048));
}

TEST(ModelSize, ARankHasItsShare) {
  const auto rank_total = [](const ModelSize& size) {
    std::int64_t total = 0;
    for (const LayerSize& layer : size.rank_layers) {
      total += layer.parameters;
    }
    return total;
  };
  const ModelSize whole = model_size(ModelKind::gpt, flags_of({}));
  const ModelSize half = model_size(
      ModelKind::gpt,
      flags_of({"--tensor-model-parallel-size", "2"}, 2));
  EXPECT_EQ(half.parameters, whole.parameters);
  EXPECT_LT(rank_total(half) * 100, rank_total(whole) * 55);
  EXPECT_GT(rank_total(half) * 100, rank_total(whole) * 50);
}

TEST(ModelSize, TheVocabularyIsThatOfThePublishedFiles) {
  const auto vocabulary = [](ModelKind kind, const Words& words) {
    Flags flags = flags_of(words);
    flags.tokenizer.vocab_size.reset();
    return model_size(kind, flags).vocabulary;
  };
  EXPECT_EQ(vocabulary(ModelKind::gpt, {"--merge-file", "merges.txt"}), 50257);
  const Words words{"--tokenizer-type", "BertWordPieceLowerCase"};
  EXPECT_EQ(vocabulary(ModelKind::bert, words), 30522);
  EXPECT_EQ(vocabulary(ModelKind::t5, words), 30622);
  EXPECT_THAT(
      error_text([&] { vocabulary(ModelKind::gpt, {}); }),
      HasSubstr("--vocab-size"));
}

TEST(ModelSize, WhatCannotBeIsRefused) {
  const auto refusal = [](const Words& words, std::int64_t world = 1) {
    return error_text(
        [&] { model_size(ModelKind::gpt, flags_of(words, world)); });
  };
  EXPECT_THAT(
      error_text([] { model_size(ModelKind::gpt, Flags()); }),
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
        model_size(ModelKind::bert, flags_of({"--num-experts", "8"}));
      }),
      HasSubstr("only GPT"));
}

TEST(ModelSize, CountsExperts) {
  const ModelSize dense = model_size(ModelKind::gpt, flags_of({}));
  EXPECT_EQ(dense.active_parameters, dense.parameters);
  constexpr std::int64_t mlp = 2 * 64 * 256 + 256 + 64;
  const ModelSize one = model_size(
      ModelKind::gpt,
      flags_of({"--num-experts", "8", "--topk", "2"}));
  EXPECT_EQ(one.parameters, dense.parameters + 2 * (7 * mlp + 8 * 64));
  EXPECT_EQ(one.active_parameters, dense.parameters + 2 * (mlp + 8 * 64));
  EXPECT_EQ(one.rank_layers[2].experts, 0);
  EXPECT_EQ(one.rank_layers[3].experts, 8 * mlp);
  const ModelSize residual = model_size(
      ModelKind::gpt,
      flags_of({"--num-experts", "1", "4", "--mlp-type", "residual"}));
  EXPECT_EQ(
      residual.parameters,
      dense.parameters + 4 * mlp + 4 * 64 + 2 * 64 + 2);
  EXPECT_EQ(residual.active_parameters, residual.parameters - 3 * mlp);
}

} // namespace
} // namespace cairn::config::model_size_test
