// Outputs of norms, and of experts' activations, that backward computes again:
// gradients to the last bit, and less memory between the passes.

#include "nn/recompute/filled_again.h"
#include "nn/counting_allocator.h"
#include "support/run_ranks.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <cairn/nn/block.h>
#include <gtest/gtest.h>
#include <torch/utils.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace cairn::nn::filled_again_test {
namespace {

using at::Tensor;
using testing::CountingAllocator;

constexpr std::int64_t hidden = 32;
constexpr std::int64_t tokens = 24;
constexpr std::int64_t batch = 3;
constexpr std::int64_t ffn = 2 * hidden;
constexpr double size_of_hidden = batch * tokens * hidden * sizeof(float);

BlockOptions options_of_block() {
  BlockOptions options;
  options.attention = {
      .hidden = hidden,
      .heads = 4,
      .key_value_heads = 2,
      .head_size = 8};
  options.mlp = {.hidden = hidden, .ffn = ffn};
  return options;
}

/// What a pass leaves behind.
struct Pass {
  Tensor output;
  std::vector<Tensor> gradients; ///< of the input, then of the parameters
  double kept = 0;               ///< bytes from forward to backward
};

Pass pass_of(const BlockOptions& options, bool autocast = false) {
  LayerContext context;
  context.initial = InitialWeights{.seed = 7, .std = 0.3, .output_std = 0.3};
  Block block(context, options);
  torch::manual_seed(3);
  Tensor x = at::randn({batch, tokens, hidden}).requires_grad_();
  BlockInput input;
  input.samples = sample_numbers(0, batch, at::kCPU);
  if (options.cross_attention) {
    input.memory = at::randn({batch, 5, hidden});
  }
  at::autocast::set_autocast_enabled(at::kCPU, autocast);
  Pass pass;
  {
    const CountingAllocator memory;
    const Block::Output output = block.forward(x, input);
    at::autocast::set_autocast_enabled(at::kCPU, false);
    at::autocast::clear_cache();
    pass.kept = static_cast<double>(memory.live());
    pass.output = output.hidden.detach();
    Tensor loss = (output.hidden.to(at::kFloat) *
                   at::arange(output.hidden.numel(), at::kFloat)
                       .view_as(output.hidden)
                       .sin())
                      .sum();
    if (output.balance_loss.defined()) {
      loss = loss + output.balance_loss.sum();
    }
    loss.backward();
  }
  pass.gradients.push_back(x.grad());
  for (const Tensor& parameter : block.parameters()) {
    pass.gradients.push_back(parameter.grad());
  }
  return pass;
}

/// Compares passes to the last bit; the second keeps `less` bytes fewer.
void expect_equal_with_less(const Pass& kept, const Pass& again, double less) {
  EXPECT_TRUE(at::equal(kept.output, again.output));
  ASSERT_EQ(kept.gradients.size(), again.gradients.size());
  for (std::size_t i = 0; i < kept.gradients.size(); ++i) {
    ASSERT_TRUE(kept.gradients[i].defined()) << i;
    EXPECT_TRUE(at::equal(kept.gradients[i], again.gradients[i])) << i;
  }
  EXPECT_EQ(kept.kept - again.kept, less);
}

void expect_norms_again(BlockOptions options, double less) {
  testing::run_ranks(1, [&](const auto&) {
    const Pass kept = pass_of(options);
    options.recompute_norms = true;
    expect_equal_with_less(kept, pass_of(options), less);
  });
}

TEST(FilledAgain, NormsBeforeAttentionAndMlp) {
  expect_norms_again(options_of_block(), 2 * size_of_hidden);
}

TEST(FilledAgain, NormsOfOtherKinds) {
  BlockOptions options = options_of_block();
  options.norm.kind = model::NormKind::rms_norm;
  options.mlp.gated = true;
  options.mlp.activation = model::ActivationKind::silu;
  options.mlp.bias = false;
  options.dropout = 0.2;
  expect_norms_again(options, 2 * size_of_hidden);
}

TEST(FilledAgain, NormsBeforeCrossAttention) {
  BlockOptions options = options_of_block();
  options.cross_attention = true;
  expect_norms_again(options, 3 * size_of_hidden);
}

TEST(FilledAgain, NormsAfterAttention) {
  BlockOptions options = options_of_block();
  options.norm_place = model::NormPlace::after;
  expect_norms_again(options, size_of_hidden);
}

TEST(FilledAgain, NormsBesideAnMlpThatIsComputedAgain) {
  BlockOptions options = options_of_block();
  options.recompute_mlp.emplace();
  expect_norms_again(options, 2 * size_of_hidden);
}

TEST(FilledAgain, NormsUnderAutocast) {
  testing::run_ranks(1, [](const auto&) {
    BlockOptions options = options_of_block();
    const Pass kept = pass_of(options, true);
    options.recompute_norms = true;
    const Pass again = pass_of(options, true);
    // The linear layers have copies in 16 bits, which they keep.
    expect_equal_with_less(kept, again, kept.kept - again.kept);
  });
}

BlockOptions with_experts(bool drop_tokens, bool gated) {
  BlockOptions options = options_of_block();
  options.mlp.gated = gated;
  options.mlp.activation =
      gated ? model::ActivationKind::silu : model::ActivationKind::gelu_tanh;
  options.mixture = MixtureOptions{
      .expert = options.mlp,
      .experts = 4,
      .routing = {.top_k = 2, .drop_tokens = drop_tokens}};
  return options;
}

TEST(FilledAgain, ActivationsOfExperts) {
  for (const bool drop_tokens : {true, false}) {
    for (const bool gated : {true, false}) {
      SCOPED_TRACE(::testing::Message() << drop_tokens << gated);
      testing::run_ranks(1, [&](const auto&) {
        BlockOptions options = with_experts(drop_tokens, gated);
        const Pass kept = pass_of(options);
        options.mixture->activated = Activated::computed_again;
        const Pass again = pass_of(options);
        // Two choices of each token; with room for as many, if some are
        // dropped.
        expect_equal_with_less(
            kept,
            again,
            2 * batch * tokens * ffn * sizeof(float));
        options.recompute_norms = true;
        const Pass both = pass_of(options);
        expect_equal_with_less(again, both, again.kept - both.kept);
        EXPECT_GE(again.kept - both.kept, size_of_hidden);
      });
    }
  }
}

TEST(FilledAgain, BackwardMayComeTwice) {
  const Tensor x = at::randn({4, 8}).requires_grad_();
  int times = 0;
  const Tensor middle = x.exp();
  const Tensor y = middle * middle;
  fill_again_in_backward(middle, {y}, [&times, x = x.detach()] {
    ++times;
    return x.exp();
  });
  EXPECT_EQ(middle.storage().nbytes(), 0);
  y.sum().backward({}, /*keep_graph=*/true);
  EXPECT_EQ(times, 1);
  y.sum().backward();
  EXPECT_EQ(times, 1);
  EXPECT_TRUE(at::allclose(x.grad(), 4 * (2 * x.detach()).exp()));
}

TEST(FilledAgain, KeepsWhatBackwardDoesNotComeTo) {
  const Tensor x = at::randn({4, 8});
  const Tensor middle = x.exp();
  const auto never = [] { return Tensor(); };
  fill_again_in_backward(middle, {middle * 2}, never); // no grad
  const Tensor leaf = at::randn({4, 8}).requires_grad_();
  const Tensor part = leaf.exp().narrow(0, 0, 2); // memory of others
  fill_again_in_backward(part, {part * 2}, never);
  const Tensor whole = leaf.exp();
  fill_again_in_backward(whole, {whole.view({8, 4})}, never);
  EXPECT_NE(middle.storage().nbytes(), 0);
  EXPECT_NE(part.storage().nbytes(), 0);
  EXPECT_NE(whole.storage().nbytes(), 0);
}

} // namespace
} // namespace cairn::nn::filled_again_test
