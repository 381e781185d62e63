#include "models/stack.h"

#include "models/attention_mask.h"
#include "models/token_dropping.h"

#include <ATen/TensorOperators.h>
#include <cairn/nn/checkpoint.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace cairn::models {

nn::LayerContext stack_context(nn::LayerContext context, std::int64_t layers) {
  if (context.initial && layers > 0) {
    context.initial->output_std =
        context.initial->std / std::sqrt(2.0 * static_cast<double>(layers));
  }
  return context;
}

nn::RelativeBiasOptions relative_bias_options(
    const ModelDescription& d,
    Role role) {
  return {
      .heads = d.heads,
      .buckets = d.relative_buckets,
      .distance = d.relative_distance,
      .bidirectional = role == Role::encoder};
}

nn::BlockInput block_input(
    const StackInput& input,
    const at::Tensor& bias,
    Role role) {
  nn::BlockInput each{
      input.mask,
      input.positions,
      input.memory,
      input.memory_mask};
  if (!bias.defined()) {
    return each;
  }
  each.mask = bias;
  at::Tensor visible = input.mask;
  if (!visible.defined() && role != Role::encoder) {
    visible = causal_mask(bias.size(2), bias.device());
  }
  if (visible.defined()) {
    each.mask = bias.masked_fill(
        visible.logical_not(),
        -std::numeric_limits<double>::infinity());
  }
  return each;
}

Stack::Stack(
    torch::nn::Module& owner,
    const nn::LayerContext& given,
    const ModelDescription& d,
    const ModelOptions& options,
    const StackOptions& stack)
    : role_(stack.role),
      ranks_per_sequence_(given.splits_tokens() ? given.group.size() : 1),
      recompute_(options.recompute),
      blocks_at_once_(static_cast<std::size_t>(options.recompute_layers)),
      dropping_layers_(options.dropping_layers) {
  const nn::LayerContext context = stack_context(given, stack.layers);
  if (d.position == checkpoints::PositionKind::relative) {
    relative_bias_ = owner.register_module(
        "relative_bias",
        std::make_shared<nn::RelativeBias>(
            context.in("relative_bias"),
            relative_bias_options(d, role_)));
  }
  const nn::BlockOptions block = block_options(d, stack.role);
  const auto layers =
      owner.register_module("layers", std::make_shared<torch::nn::Module>());
  for (std::int64_t i = 0; i < stack.layers; ++i) {
    const std::string name = std::to_string(i);
    blocks_.push_back(layers->register_module(
        name,
        std::make_shared<nn::Block>(
            context.in("layers").in(name),
            block_options(block, d, i))));
  }
  if (d.norm_place == checkpoints::NormPlace::before) {
    final_norm_ = owner.register_module(
        "final_norm",
        std::make_shared<nn::Norm>(
            context.in("final_norm"),
            d.hidden,
            norm_options(d)));
  }
}

at::Tensor with_balance_loss(const at::Tensor& sum, const at::Tensor& one) {
  return !one.defined() ? sum : !sum.defined() ? one : sum + one;
}

nn::Block::Output Stack::blocks_from(
    std::size_t first,
    at::Tensor x,
    const nn::BlockInput& input,
    const at::Tensor& kept) const {
  nn::Block::Output all{std::move(x)};
  const std::size_t end = std::min(first + blocks_at_once_, blocks_.size());
  for (std::size_t i = first; i < end; ++i) {
    const auto drops =
        std::ranges::find(dropping_layers_, static_cast<std::int64_t>(i));
    const nn::Block::Output one =
        kept.defined() && drops != dropping_layers_.end()
        ? forward_kept(
              *blocks_[i],
              all.hidden,
              input,
              kept.select(0, drops - dropping_layers_.begin()))
        : blocks_[i]->forward(all.hidden, input);
    all.hidden = one.hidden;
    all.balance_loss = with_balance_loss(all.balance_loss, one.balance_loss);
  }
  return all;
}

nn::Block::Output Stack::forward(at::Tensor x, const StackInput& input) const {
  at::Tensor bias;
  if (relative_bias_) {
    const std::int64_t sequence = x.size(1) * ranks_per_sequence_;
    bias = relative_bias_->forward(sequence, sequence);
  }
  const nn::BlockInput each = block_input(input, bias, role_);
  nn::Block::Output all{std::move(x)};
  const auto add = [&](const at::Tensor& hidden, const at::Tensor& loss) {
    all.hidden = hidden;
    all.balance_loss = with_balance_loss(all.balance_loss, loss);
  };
  for (std::size_t i = 0; i < blocks_.size(); i += blocks_at_once_) {
    if (!recompute_) {
      const nn::Block::Output some =
          blocks_from(i, all.hidden, each, input.kept);
      add(some.hidden, some.balance_loss);
      continue;
    }
    const std::vector<at::Tensor> some = nn::checkpoint(
        *recompute_,
        [this, i](
            const at::Tensor& from,
            const at::Tensor& mask,
            const at::Tensor& positions,
            const at::Tensor& memory,
            const at::Tensor& memory_mask,
            const at::Tensor& kept) {
          const nn::Block::Output output = blocks_from(
              i,
              from,
              {mask, positions, memory, memory_mask},
              kept);
          std::vector<at::Tensor> tensors{output.hidden};
          if (output.balance_loss.defined()) {
            tensors.push_back(output.balance_loss);
          }
          return tensors;
        },
        all.hidden,
        each.mask,
        each.positions,
        each.memory,
        each.memory_mask,
        input.kept);
    add(some[0], some.size() > 1 ? some[1] : at::Tensor());
  }
  if (final_norm_) {
    all.hidden = final_norm_->forward(all.hidden);
  }
  return all;
}

} // namespace cairn::models
