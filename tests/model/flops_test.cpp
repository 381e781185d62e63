#include "model/internal/flops.h"
#include "model/internal/activations.h"

#include <cairn/model/presets.h>

#include <gtest/gtest.h>

namespace cairn::model::flops_test {
namespace {

const ModelSizes gpt2_sizes{.padded_vocabulary = 50304};
const ModelDescription gpt2 = gpt_description(gpt2_sizes);

// The numbers of num_floating_point_operations() in Megatron-LM d98e8a64.
TEST(Flops, AgreeWithMegatron) {
  EXPECT_DOUBLE_EQ(megatron_flops(gpt2, 1024), 817184636928.0);
  const ModelDescription llama3_8b = llama_description(
      {.layers = 32, .hidden = 4096, .heads = 32, .vocabulary = 128256},
      8,
      14336);
  EXPECT_DOUBLE_EQ(megatron_flops(llama3_8b, 8192), 421645529382912.0);
}

TEST(Flops, WithoutAMaskAttentionIsWhole) {
  const double half_of_attention = 6.0 * 12 * 1024 * 1024 * 768;
  EXPECT_DOUBLE_EQ(
      megatron_flops(bert_description(gpt2_sizes), 1024),
      megatron_flops(gpt2, 1024) + half_of_attention);
}

TEST(Flops, OfAnEncoderAndADecoder) {
  // Counted by hand: every product of the model is one line.
  ModelDescription t5 =
      t5_description({.layers = 2, .hidden = 8, .heads = 2, .vocabulary = 100});
  t5.decoder_layers = 1;
  const double source = 10;
  const double target = 4;
  const double encoder_layer = source * 8 * 8 * 4 // q, k, v, o
      + source * source * 8 * 2                   // scores, values
      + source * 8 * 32 * 2;
  const double decoder_layer = target * 8 * 8 * 4 //
      + target * target * 8 * 2 / 2               // masked
      + target * 8 * 8 * 2 + source * 8 * 8 * 2   // q, o; k, v of the source
      + target * source * 8 * 2                   //
      + target * 8 * 32 * 2;
  const double logits = target * 8 * 100;
  EXPECT_DOUBLE_EQ(
      megatron_flops(t5, 10, 4),
      6 * (2 * encoder_layer + decoder_layer + logits));
}

TEST(Flops, OfTheExpertsThatATokenIsRoutedTo) {
  ModelDescription experts = gpt2;
  experts.experts =
      ExpertsDescription{.counts = {8}, .interval = 2, .top_k = 2};
  const double mlp = 6.0 * 1024 * 2 * 768 * 3072;
  EXPECT_DOUBLE_EQ(
      megatron_flops(experts, 1024),
      megatron_flops(gpt2, 1024) + 6 * mlp);
}

TEST(Flops, PaLMsAreNanoGpts) {
  // nanoGPT's estimate_mfu() for GPT-2: 6 N + 12 L H Q T.
  EXPECT_DOUBLE_EQ(
      palm_flops_per_token(123'653'376, gpt2, 1024),
      6.0 * 123'653'376 + 12.0 * 12 * 12 * 64 * 1024);
}

// "Reducing Activation Recomputation in Large Transformer Models", equations 1
// to 4: s b h (34 + 5 a s / h), with ranks and recomputation.
TEST(Activations, AreThePapers) {
  ModelDescription d = gpt2;
  d.dropout = 0.1;
  d.attention_dropout = 0.1;
  const double sbh = 1024.0 * 4 * 768;
  const double scores = 5.0 * 12 * 1024 / 768;
  ActivationOptions options{
      .sequence = 1024,
      .batch = 4,
      .recompute = Recompute::nothing};
  const auto bytes = [&] { return activation_bytes(d, 0, options); };
  EXPECT_DOUBLE_EQ(bytes(), sbh * (34 + scores));
  options.tensor_ranks = 4;
  EXPECT_DOUBLE_EQ(bytes(), sbh * (10 + 24.0 / 4 + scores / 4));
  options.sequence_parallel = true;
  EXPECT_DOUBLE_EQ(bytes(), sbh / 4 * (34 + scores));
  options.recompute = Recompute::scores;
  EXPECT_DOUBLE_EQ(bytes(), sbh / 4 * 34);
  options.sequence_parallel = false;
  options.recompute = Recompute::blocks;
  EXPECT_DOUBLE_EQ(bytes(), sbh * 2);
}

TEST(Activations, AFusedGateKeepsAWidthLess) {
  ModelDescription d = gpt2;
  d.gated = true;
  ActivationOptions options{.sequence = 1024, .batch = 4};
  const double apart = activation_bytes(d, 0, options);
  options.fused_gate = true;
  EXPECT_DOUBLE_EQ(
      apart - activation_bytes(d, 0, options),
      2.0 * static_cast<double>(d.ffn) * 1024 * 4);
}

TEST(Activations, CrossAttentionKeepsTheEncodersKeysAndValues) {
  // A token of the decoder: the norm's input and output, query and output. One
  // of the encoder: key and value. 768 values of 2 bytes each.
  ActivationOptions options{.sequence = 128, .batch = 4};
  EXPECT_DOUBLE_EQ(
      cross_attention_bytes(gpt2, 512, options),
      4.0 * 2 * 768 * (128 * 4 + 512 * 2));
  options.tensor_ranks = 4; // the residual stream is whole on each
  EXPECT_DOUBLE_EQ(
      cross_attention_bytes(gpt2, 512, options),
      4.0 * 2 * 768 * (128 * (2 + 2.0 / 4) + 512 * 2.0 / 4));
  options.recompute = Recompute::blocks;
  EXPECT_EQ(cross_attention_bytes(gpt2, 512, options), 0);
}

} // namespace
} // namespace cairn::model::flops_test
