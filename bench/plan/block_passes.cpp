#include "plan/block_passes.h"

#include "models/block_options.h"
#include "plan/attention_speeds.h"
#include "plan/product_speeds.h"

#include <ATen/ops/add.h>
#include <ATen/ops/empty_like.h>
#include <cairn/model/presets.h>
#include <cairn/nn/block.h>
#include <torch/csrc/autograd/autograd.h>

#include <array>

using namespace cairn; // NOLINT

BlockSeconds block_seconds(
    const Timer& timer,
    Operands& operands,
    const BlockSizes& sizes) {
  const std::int64_t tokens = sizes.samples * sizes.sequence;
  const std::int64_t h = sizes.hidden;
  nn::LayerContext context;
  context.dtype = at::kBFloat16;
  context.device = operands.device();
  const nn::Block block(
      context,
      models::block_options(
          model::gpt_description(
              {.layers = 1,
               .hidden = h,
               .heads = sizes.heads,
               .sequence = sizes.sequence}),
          models::Role::decoder));
  const auto stream = [&] {
    return operands.next(tokens, h)
        .view({sizes.samples, sizes.sequence, h})
        .detach();
  };
  const auto passed = [&](const at::Tensor& x) {
    return block.forward(x, {}).hidden;
  };
  BlockSeconds took;
  took.forward = timer([&] { passed(stream().requires_grad_()); });
  const double both = timer([&] {
    const at::Tensor x = stream().requires_grad_();
    std::vector<at::Tensor> inputs = block.parameters();
    inputs.push_back(x);
    torch::autograd::grad({passed(x)}, inputs, {stream()});
  });
  took.backward = both - took.forward;
  for (const auto& [out, in] : std::array<std::array<std::int64_t, 2>, 4>{
           {{3 * h, h}, {h, h}, {4 * h, h}, {h, 4 * h}}}) {
    took.products +=
        product_seconds(timer, operands, Bits::sixteen, tokens, out, in).all();
  }
  const AttentionSeconds attention = attention_seconds(
      timer,
      operands,
      {.tokens = tokens,
       .sequence = sizes.sequence,
       .width = h,
       .head_size = h / sizes.heads});
  took.attention = attention.forward + attention.backward;
  return took;
}

double passes_of(
    const BlockSizes& sizes,
    const BlockSeconds& seconds,
    const std::vector<plan::SpeedAt>& traffic) {
  constexpr double value = 2; // bytes
  const double tensor = value *
      static_cast<double>(sizes.samples * sizes.sequence * sizes.hidden);
  // The forward pass reads and writes so many tensors as wide as the residual
  // stream in two norms, two sums, heads and GELU; backward twice as many.
  constexpr double forward = 2 * (2 + 3) + 2 * 3 + 2 * 4;
  return seconds.rest() * plan::speed_at(traffic, tensor) /
      (3 * forward * tensor);
}

std::vector<plan::SpeedAt> traffic_speeds(
    const Timer& timer,
    Operands& operands,
    const std::vector<std::int64_t>& elements) {
  std::vector<plan::SpeedAt> curve;
  for (const std::int64_t count : elements) {
    const at::Tensor sum = operands.next(1, count);
    const double time = timer([&] {
      at::Tensor result = at::empty_like(sum);
      at::add_out(result, operands.next(1, count), operands.next(1, count));
    });
    const double bytes = 2 * static_cast<double>(count);
    curve.push_back({.size = bytes, .speed = 3 * bytes / time});
  }
  return curve;
}
