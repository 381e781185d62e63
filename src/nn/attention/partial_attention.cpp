#include "nn/attention/partial_attention.h"

#include "nn/attention/head_attention.h"
#include "nn/linear/wide_compute.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_scaled_dot_product_efficient_attention.h>
#include <ATen/ops/_scaled_dot_product_efficient_attention_backward.h>
#include <ATen/ops/_scaled_dot_product_flash_attention.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_backward.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/logaddexp.h>
#include <ATen/ops/stack.h>

#include <array>
#include <limits>
#include <tuple>
#include <vector>

namespace cairn::nn {
namespace {

/// A stand-in for random state, which the GPU's kernels do not use where
/// nothing is dropped.
at::Tensor no_random(const at::Tensor& like) {
  return at::empty({}, like.options().dtype(at::kLong));
}

bool has_flash(const at::Tensor& query) {
  return query.scalar_type() == at::kHalf ||
      query.scalar_type() == at::kBFloat16;
}

PartialAttention by_libtorch(
    const AttentionInput& input,
    const Scores& scores) {
  const auto& [query, key, value] = input;
  const auto& [causal, scale] = scores;
  if (query.is_cpu()) {
    const auto [output, log_sum] =
        at::_scaled_dot_product_flash_attention_for_cpu(
            query,
            key,
            value,
            0,
            causal,
            {},
            scale);
    return {output, log_sum};
  }
  if (has_flash(query)) {
    const auto result = at::_scaled_dot_product_flash_attention(
        query,
        key,
        value,
        0,
        causal,
        /*return_debug_mask=*/false,
        scale);
    return {std::get<0>(result), std::get<1>(result)};
  }
  const auto result = at::_scaled_dot_product_efficient_attention(
      query,
      key,
      value,
      {},
      /*compute_log_sumexp=*/true,
      0,
      causal,
      scale);
  // The kernel pads the log sums to whole blocks of queries.
  return {std::get<0>(result), std::get<1>(result).narrow(2, 0, query.size(2))};
}

std::array<at::Tensor, 3> by_libtorch_backward(
    const at::Tensor& gradient,
    const AttentionInput& input,
    const PartialAttention& whole,
    const Scores& scores) {
  const auto& [query, key, value] = input;
  const auto& [causal, scale] = scores;
  const auto three = [](const auto& result) {
    return std::array{
        std::get<0>(result),
        std::get<1>(result),
        std::get<2>(result)};
  };
  if (query.is_cpu()) {
    return three(at::_scaled_dot_product_flash_attention_for_cpu_backward(
        gradient,
        query,
        key,
        value,
        whole.output,
        whole.log_sum,
        0,
        causal,
        {},
        scale));
  }
  if (has_flash(query)) {
    return three(at::_scaled_dot_product_flash_attention_backward(
        gradient,
        query,
        key,
        value,
        whole.output,
        whole.log_sum.contiguous(),
        {},
        {},
        query.size(2),
        key.size(2),
        0,
        causal,
        no_random(query),
        no_random(query),
        scale));
  }
  constexpr std::int64_t block = 32;
  const std::int64_t missing = (block - query.size(2) % block) % block;
  return three(at::_scaled_dot_product_efficient_attention_backward(
      gradient,
      query,
      key,
      value,
      {},
      whole.output,
      // Padded as the kernel's forward pads them; with infinity the padding has
      // no share.
      at::constant_pad_nd(
          whole.log_sum,
          {0, missing},
          std::numeric_limits<float>::infinity()),
      no_random(query),
      no_random(query),
      0,
      {true, true, true, false},
      causal,
      scale));
}

AttentionInput all_heads_first(const AttentionInput& input) {
  return {
      heads_first(input.query),
      heads_first(input.key),
      heads_first(input.value)};
}

/// The number of kernels that a group's queries need, one for each of its
/// heads, so that no kernel needs the keys and values once more: of all
/// kernels only flash attention on a GPU takes groups.
std::int64_t turns_of(const AttentionInput& input) {
  const bool takes_groups = !input.query.is_cpu() && has_flash(input.query);
  return takes_groups ? 1 : input.query.size(2) / input.key.size(2);
}

/// Head `turn` of every group, of [batch, tokens, heads, size].
at::Tensor heads_of_turn(
    const at::Tensor& x,
    std::int64_t turn,
    std::int64_t turns) {
  return turns == 1 ? x : x.unflatten(2, {-1, turns}).select(3, turn);
}

/// The heads of all turns, where dim `heads` of each has one of every group.
at::Tensor heads_of_all_turns(
    const std::vector<at::Tensor>& turns,
    std::int64_t heads) {
  return turns.size() == 1
      ? turns[0]
      : at::stack(turns, heads + 1).flatten(heads, heads + 1);
}

AttentionInput widened(const AttentionInput& input) {
  return {
      nn::widened(input.query),
      nn::widened(input.key),
      nn::widened(input.value)};
}

} // namespace

PartialAttention attend_partly(
    const AttentionInput& input,
    const Scores& scores) {
  if (computes_wide(input.query)) {
    return attend_partly(widened(input), scores);
  }
  if (attends_by_heads(input, 0)) {
    return heads_forward(input, scores);
  }
  const std::int64_t turns = turns_of(input);
  std::vector<at::Tensor> outputs;
  std::vector<at::Tensor> log_sums;
  for (std::int64_t i = 0; i < turns; ++i) {
    const PartialAttention result = by_libtorch(
        all_heads_first(
            {heads_of_turn(input.query, i, turns), input.key, input.value}),
        scores);
    outputs.push_back(heads_first(result.output));
    log_sums.push_back(result.log_sum);
  }
  return {heads_of_all_turns(outputs, 2), heads_of_all_turns(log_sums, 1)};
}

void join(const PartialAttention& sum, const PartialAttention& part) {
  const at::Tensor together = at::logaddexp(sum.log_sum, part.log_sum);
  const auto share = [&](const PartialAttention& of) {
    return (of.log_sum - together).exp_().transpose(1, 2).unsqueeze(3);
  };
  sum.output.mul_(share(sum)).addcmul_(part.output, share(part));
  sum.log_sum.copy_(together);
}

AttentionGradients attend_partly_backward(
    const at::Tensor& gradient,
    const AttentionInput& input,
    const PartialAttention& whole,
    const Scores& scores) {
  if (computes_wide(input.query)) {
    return attend_partly_backward(
        widened(gradient),
        widened(input),
        {widened(whole.output), whole.log_sum},
        scores);
  }
  if (attends_by_heads(input, 0)) {
    return heads_backward(gradient, input, whole, scores);
  }
  const std::int64_t turns = turns_of(input);
  std::vector<at::Tensor> of_queries;
  AttentionGradients sum;
  for (std::int64_t i = 0; i < turns; ++i) {
    const auto result = by_libtorch_backward(
        heads_first(heads_of_turn(gradient, i, turns)),
        all_heads_first(
            {heads_of_turn(input.query, i, turns), input.key, input.value}),
        {heads_first(heads_of_turn(whole.output, i, turns)),
         turns == 1 ? whole.log_sum
                    : whole.log_sum.unflatten(1, {-1, turns}).select(2, i)},
        scores);
    of_queries.push_back(heads_first(result[0]));
    if (i == 0) {
      sum = {{}, heads_first(result[1]), heads_first(result[2])};
    } else {
      sum.key.add_(heads_first(result[1]));
      sum.value.add_(heads_first(result[2]));
    }
  }
  sum.query = heads_of_all_turns(of_queries, 2);
  return sum;
}

} // namespace cairn::nn
