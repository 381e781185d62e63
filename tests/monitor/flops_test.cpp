#include <cairn/monitor/device_peak.h>
#include <cairn/monitor/flops.h>

#include <gtest/gtest.h>

namespace cairn::monitor {
namespace {

const TransformerShape gpt2{
    .layers = 12,
    .hidden = 768,
    .feed_forward = 3072,
    .heads = 12,
    .vocabulary = 50304};

// From num_floating_point_operations() of Megatron-LM d98e8a64.
TEST(Flops, AgreeWithMegatron) {
  EXPECT_DOUBLE_EQ(megatron_flops(gpt2, 1024), 817184636928.0);
  const TransformerShape llama3_8b{
      .layers = 32,
      .hidden = 4096,
      .feed_forward = 14336,
      .heads = 32,
      .kv_heads = 8,
      .head_size = 128,
      .vocabulary = 128256,
      .gated = true};
  EXPECT_DOUBLE_EQ(megatron_flops(llama3_8b, 8192), 421645529382912.0);
}

TEST(Flops, WithoutAMaskAttentionIsWhole) {
  TransformerShape bert = gpt2;
  bert.causal = false;
  const double half_of_attention = 6.0 * 12 * 1024 * 1024 * 768;
  EXPECT_DOUBLE_EQ(
      megatron_flops(bert, 1024),
      megatron_flops(gpt2, 1024) + half_of_attention);
}

TEST(Flops, OfAnEncoderAndADecoder) {
  // Counted by hand: every product of the model is one line.
  const TransformerShape t5{
      .layers = 1,
      .encoder_layers = 2,
      .hidden = 8,
      .feed_forward = 32,
      .heads = 2,
      .vocabulary = 100};
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
      megatron_flops(t5, 4, 10),
      6 * (2 * encoder_layer + decoder_layer + logits));
}

TEST(Flops, PaLMsAreNanoGpts) {
  // nanoGPT's estimate_mfu() for GPT-2: 6 N + 12 L H Q T.
  EXPECT_DOUBLE_EQ(
      palm_flops_per_token(123'653'376, gpt2, 1024),
      6.0 * 123'653'376 + 12.0 * 12 * 12 * 64 * 1024);
}

double tera(const char* device, Arithmetic arithmetic = Arithmetic::half) {
  const auto peak = known_peak(device, arithmetic);
  return peak ? peak->flops / 1e12 : 0;
}

TEST(DevicePeak, IsDenseAndByWholeWords) {
  EXPECT_EQ(tera("NVIDIA H100 80GB HBM3"), 989.5);
  EXPECT_EQ(tera("NVIDIA H100 PCIe"), 756);
  EXPECT_EQ(tera("NVIDIA H200"), 989.5);
  EXPECT_EQ(tera("NVIDIA GH200 480GB"), 989.5);
  EXPECT_EQ(tera("NVIDIA A100-SXM4-80GB"), 312);
  EXPECT_EQ(tera("NVIDIA A10"), 125);
  EXPECT_EQ(tera("Tesla V100-SXM2-16GB"), 125);
  EXPECT_EQ(tera("NVIDIA A100-SXM4-80GB", Arithmetic::full), 19.5);
  EXPECT_EQ(tera("Neoverse-N1"), 0);
  EXPECT_EQ(tera(""), 0);
}

TEST(DevicePeak, SaysWhatItIs) {
  EXPECT_EQ(
      known_peak("NVIDIA H200", Arithmetic::half)->source,
      "989.5 TFLOP/s of H200 (dense, 16 bits)");
  EXPECT_EQ(stated_peak(0.5).flops, 5e11);
  EXPECT_EQ(stated_peak(0.5).source, "0.5 TFLOP/s as stated");
}

} // namespace
} // namespace cairn::monitor
