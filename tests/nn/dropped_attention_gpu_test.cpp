// Attention with dropped weights on a GPU: the CPU's, in double, for every way
// that leads to it, and the same for any split of samples, heads and keys.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <cairn/nn/attention.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "nn/attention/dropped_attention.h"
#include "nn/attention/fused_attention.h"
#include "nn/attention/gpu_attention.h"

namespace cairn::nn::dropped_attention_test {
namespace {

using at::Tensor;

constexpr std::int64_t batch = 2;
constexpr std::int64_t tokens = 70;

Tensor on_gpu(const Tensor& x) {
  return x.to(at::kCUDA);
}

Tensor samples() {
  return on_gpu(at::tensor({5, 1234567}, at::kLong));
}

AttentionNoise noise(std::int64_t first_head = 0) {
  return {.key = 99, .samples = samples(), .first_head = first_head};
}

Tensor random(at::IntArrayRef shape, at::ScalarType type) {
  return on_gpu(at::randn(shape).to(type));
}

Tensor exact(const Tensor& x) {
  return x.defined() && x.scalar_type() != at::kBool ? x.cpu().to(at::kDouble)
      : x.defined()                                  ? x.cpu()
                                                     : x;
}

/// Bound on the relative error of attention and its gradients.
double bound_of(at::ScalarType type) {
  return type == at::kBFloat16 ? 8e-3 : type == at::kHalf ? 1e-3 : 1e-5;
}

void expect_close(const Tensor& found, const Tensor& expected, double bound) {
  const Tensor there = exact(expected);
  const double error = (exact(found) - there).norm().item<double>();
  EXPECT_LE(error, bound * there.norm().item<double>());
}

/// A result and the gradients of the inputs.
std::vector<Tensor> with_gradients(
    const Tensor& result,
    const std::vector<Tensor>& inputs,
    const Tensor& gradient) {
  std::vector<Tensor> all =
      torch::autograd::grad({result}, inputs, {gradient.to(result.options())});
  all.insert(all.begin(), result.detach());
  return all;
}

struct Shape {
  const char* name;
  at::ScalarType type = at::kBFloat16;
  std::int64_t heads = 4;
  std::int64_t groups = 4;
  std::int64_t size = 64;
  at::ScalarType mask = at::kLong; ///< kLong: none, but causal
  bool learned = false;            ///< the mask
  bool fused = true;
};

class DroppedAttentionGpu : public ::testing::TestWithParam<Shape> {};

TEST_P(DroppedAttentionGpu, IsTheCpus) {
  const Shape& shape = GetParam();
  at::manual_seed(3);
  std::vector<Tensor> inputs{
      random({batch, tokens, shape.heads, shape.size}, shape.type),
      random({batch, tokens, shape.groups, shape.size}, shape.type),
      random({batch, tokens, shape.groups, shape.size}, shape.type)};
  Tensor mask;
  if (shape.mask == at::kBool) {
    mask = on_gpu(at::rand({batch, 1, tokens, tokens}) < 0.6);
  } else if (shape.mask != at::kLong) {
    mask = random({1, shape.heads, tokens, tokens}, shape.mask);
  }
  const AttendOptions options{
      .mask = mask,
      .causal = true,
      .dropout = 0.2,
      .noise = noise(3)};
  EXPECT_EQ(
      attends_fused(
          {inputs[0], inputs[1], inputs[2]},
          {.mask = shape.learned ? mask.clone().requires_grad_() : mask}),
      shape.fused);
  const Tensor gradient = at::randn({batch, tokens, shape.heads * shape.size});
  const auto computed = [&](const auto& form, AttendOptions how) {
    std::vector<Tensor> own;
    for (const Tensor& each : inputs) {
      own.push_back(form(each).detach().requires_grad_());
    }
    std::vector<Tensor> of = own;
    how.mask = form(mask);
    if (shape.learned) {
      how.mask = how.mask.detach().requires_grad_();
      of.push_back(how.mask);
    }
    return with_gradients(attend(own[0], own[1], own[2], how), of, gradient);
  };
  const auto found = computed([](const Tensor& x) { return x; }, options);
  AttendOptions on_cpu = options;
  on_cpu.noise.samples = options.noise.samples.cpu();
  const auto expected = computed(exact, on_cpu);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    SCOPED_TRACE(i);
    // The operators round scores and weights to 16 bits.
    expect_close(
        found[i],
        expected[i],
        bound_of(shape.type) * (shape.fused ? 1 : 4));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Table,
    DroppedAttentionGpu,
    ::testing::Values(
        Shape{.name = "bf16"},
        Shape{.name = "fp16", .type = at::kHalf},
        Shape{.name = "grouped", .groups = 2, .size = 40},
        Shape{.name = "large", .groups = 1, .size = 128},
        // Their heads are made longer.
        Shape{.name = "odd_size", .size = 20, .fused = false},
        Shape{.name = "visible", .mask = at::kBool},
        Shape{.name = "added", .mask = at::kBFloat16},
        Shape{.name = "learned", .mask = at::kBFloat16, .learned = true},
        Shape{
            .name = "very_large",
            .heads = 2,
            .groups = 2,
            .size = 136,
            .fused = false},
        Shape{.name = "fp32", .type = at::kFloat, .fused = false}),
    [](const auto& given) { return given.param.name; });

/// Queries, keys and values that lie together, with rotary positions: the same
/// as apart, also for the gradients, and for the bias of the projection.
TEST(DroppedAttentionGpuJoined, IsThatOfParts) {
  for (const std::int64_t queries : {1, 3}) {
    at::manual_seed(5);
    constexpr std::int64_t groups = 2;
    constexpr std::int64_t size = 64;
    const std::int64_t width = groups * (queries + 2) * size;
    const Rotary rotary({.head_size = size});
    const auto [cosine, sine] =
        rotary.angles({}, tokens, at::kBFloat16, at::Device(at::kCUDA));
    const Tensor x = random({batch, tokens, 96}, at::kBFloat16);
    const Tensor weight =
        (random({width, 96}, at::kFloat) * 0.1).to(at::kBFloat16);
    const Tensor bias = random({width}, at::kBFloat16);
    const SelfScores how{
        .scores = {.causal = true, .scale = 0.2},
        .angles = {cosine, sine},
        .dropout = 0.2,
        .noise = noise(1)};
    const auto leaves = [&] {
      return std::vector<Tensor>{
          x.clone().requires_grad_(),
          weight.clone().requires_grad_(),
          bias.clone().requires_grad_()};
    };
    const Tensor gradient = at::randn({batch, tokens, groups * queries * size});
    const auto own = leaves();
    const auto attended = project_and_attend_on_gpu(
        own[0],
        {.weight = own[1], .bias = own[2], .groups = groups, .size = size},
        how);
    ASSERT_TRUE(attended.has_value());
    const auto found = with_gradients(*attended, own, gradient);
    const auto others = leaves();
    const auto parts = at::linear(others[0], others[1], others[2])
                           .view({batch, tokens, groups, queries + 2, size})
                           .split_with_sizes({queries, 1, 1}, 3);
    const auto expected = with_gradients(
        attend(
            rotate(parts[0].flatten(2, 3), cosine, sine),
            rotate(parts[1].squeeze(3), cosine, sine),
            parts[2].squeeze(3),
            {.causal = true, .scale = 0.2, .dropout = 0.2, .noise = noise(1)}),
        others,
        gradient);
    for (std::size_t i = 0; i < found.size(); ++i) {
      SCOPED_TRACE(i);
      expect_close(found[i], expected[i], 8e-3);
    }
  }
}

/// Ranks that have some of the samples or of the heads drop the same weights.
TEST(DroppedAttentionGpuParts, OfSamplesAndHeadsAreThoseOfTheWhole) {
  at::manual_seed(6);
  constexpr std::int64_t heads = 4;
  const Tensor query = random({batch, tokens, heads, 64}, at::kBFloat16);
  const Tensor key = random({batch, tokens, 2, 64}, at::kBFloat16);
  const Tensor value = random({batch, tokens, 2, 64}, at::kBFloat16);
  const auto attended = [&](std::int64_t sample, std::int64_t group) {
    const auto part = [&](const Tensor& x, std::int64_t shared) {
      return x.narrow(0, sample, 1).narrow(2, shared * group, shared);
    };
    AttentionNoise own = noise(2 * group);
    own.samples = own.samples.narrow(0, sample, 1);
    return attend(
        part(query, 2),
        part(key, 1),
        part(value, 1),
        {.causal = true, .dropout = 0.3, .noise = own});
  };
  const Tensor whole = attend(
      query,
      key,
      value,
      {.causal = true, .dropout = 0.3, .noise = noise()});
  for (std::int64_t sample = 0; sample < batch; ++sample) {
    for (std::int64_t group = 0; group < 2; ++group) {
      EXPECT_TRUE(at::equal(
          attended(sample, group),
          whole.narrow(0, sample, 1).narrow(2, group * 128, 128)));
    }
  }
  EXPECT_FALSE(at::equal(
      whole,
      attend(query, key, value, {.causal = true, .noise = noise()})));
}

/// Attention to a part of the keys, of a part of the queries, as ring attention
/// has it: the parts make the whole, and so do their gradients.
TEST(DroppedAttentionGpuParts, OfKeysAndQueriesMakeTheWhole) {
  at::manual_seed(7);
  constexpr std::int64_t cut = 27;
  const AttentionInput input{
      random({batch, tokens, 2, 64}, at::kHalf),
      random({batch, tokens, 1, 64}, at::kHalf),
      random({batch, tokens, 1, 64}, at::kHalf)};
  const Tensor gradient = random({batch, tokens, 2, 64}, at::kHalf);
  const DroppedScores how{
      .scores = {.causal = true, .scale = 0.2},
      .dropout = 0.3,
      .noise = noise()};
  const PartialAttention whole = fused_forward(input, how);
  const AttentionGradients gradients =
      fused_backward(gradient, input, whole, how);
  const auto late = [&](const Tensor& x) {
    return x.narrow(1, cut, tokens - cut);
  };
  DroppedScores to_early = how;
  to_early.first_query = cut;
  DroppedScores to_late = to_early;
  to_late.first_key = cut;
  const AttentionInput early_keys{
      late(input.query),
      input.key.narrow(1, 0, cut),
      input.value.narrow(1, 0, cut)};
  const AttentionInput late_keys{
      late(input.query),
      late(input.key),
      late(input.value)};
  PartialAttention sum = fused_forward(early_keys, to_early);
  sum.output = sum.output.to(at::kFloat);
  join(sum, fused_forward(late_keys, to_late));
  expect_close(sum.output, late(whole.output), 2e-3);
  expect_close(sum.log_sum, whole.log_sum.narrow(2, cut, tokens - cut), 1e-5);
  const PartialAttention all{sum.output.to(at::kHalf), sum.log_sum};
  const auto of_early =
      fused_backward(late(gradient), early_keys, all, to_early);
  const auto of_late = fused_backward(late(gradient), late_keys, all, to_late);
  expect_close(of_early.query + of_late.query, late(gradients.query), 3e-3);
  // Only the late queries see the late keys.
  expect_close(of_late.key, late(gradients.key), 3e-3);
  expect_close(of_late.value, late(gradients.value), 3e-3);
}

} // namespace
} // namespace cairn::nn::dropped_attention_test
