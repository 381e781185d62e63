#include "nn/attention/partial_dropping.h"

#include "nn/linear/dropped_rows.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <limits>

namespace cairn::nn {
namespace {

/// Keeps autocast from computing products of floats in 16 bits.
using WithoutAutocast = c10::impl::ExcludeDispatchKeyGuard;

/// The queries of one group of heads, [batch, heads x queries, size], and its
/// keys and values, [batch, keys, size].
struct GroupInput {
  std::int64_t heads;
  at::Tensor query;
  at::Tensor key;
  at::Tensor value;
};

/// The heads of a group, of [batch, tokens, heads, size].
at::Tensor heads_of(const at::Tensor& x, std::int64_t group, std::int64_t n) {
  return x.narrow(2, group * n, n);
}

/// [batch, queries, heads, size] in rows, [batch, heads x queries, size].
at::Tensor in_rows(const at::Tensor& x) {
  return heads_first(x).to(at::kFloat).flatten(1, 2);
}

/// The reverse of in_rows().
at::Tensor from_rows(const at::Tensor& x, std::int64_t heads) {
  return heads_first(x.unflatten(1, {heads, -1}));
}

GroupInput group_of(const AttentionInput& input, std::int64_t group) {
  const std::int64_t heads = input.query.size(2) / input.key.size(2);
  const auto one = [&](const at::Tensor& x) {
    return x.select(2, group).to(at::kFloat);
  };
  return {
      heads,
      in_rows(heads_of(input.query, group, heads)),
      one(input.key),
      one(input.value)};
}

/// Scores, [batch, heads x queries, keys].
at::Tensor scores_of(const GroupInput& group, const Scores& scores) {
  at::Tensor result =
      at::bmm(group.query * scores.scale, group.key.transpose(1, 2));
  if (scores.causal) {
    const at::Tensor each = result.unflatten(1, {group.heads, -1});
    each.masked_fill_(
        at::ones({each.size(2), each.size(3)}, each.options().dtype(at::kBool))
            .triu_(1),
        -std::numeric_limits<double>::infinity());
  }
  return result;
}

/// What the weights of a group are multiplied by, shaped as its scores: 0 for
/// weights that are dropped.
at::Tensor kept_of(
    const GroupInput& group,
    std::int64_t number,
    const PartialNoise& noise) {
  const std::int64_t queries = group.query.size(1) / group.heads;
  kernels::DropoutRows place{.heads = group.heads, .tokens = queries};
  place.early = noise.queries.front().size;
  place.early_begin = noise.queries.front().begin;
  place.late_begin = noise.queries.back().begin;
  place.first_head = noise.noise.first_head + number * group.heads;
  place.key = noise.noise.key;
  place.drop(noise.dropout);
  std::vector<at::Tensor> stretches;
  for (const TokenRange& keys : noise.keys) {
    constexpr std::int64_t drawn_at_once = 8;
    const std::int64_t before = keys.begin % drawn_at_once;
    place.first_column = keys.begin - before;
    stretches.push_back(
        dropped_rows(
            at::ones(
                {group.query.size(0), group.query.size(1), before + keys.size},
                group.query.options()),
            noise.noise.samples,
            place)
            .narrow(2, before, keys.size));
  }
  return stretches.size() == 1 ? stretches[0] : at::cat(stretches, 2);
}

/// Log sums, [batch, heads of a group, queries], as a column for rows.
at::Tensor column_of(const at::Tensor& log_sum) {
  return log_sum.flatten(1, 2).unsqueeze(2);
}

} // namespace

PartialAttention attend_dropping_partly(
    const AttentionInput& input,
    const Scores& scores,
    const PartialNoise& noise) {
  const WithoutAutocast in_float(c10::autocast_dispatch_keyset);
  const at::Tensor& query = input.query;
  const auto floats = query.options().dtype(at::kFloat);
  const PartialAttention result{
      at::empty(query.sizes(), floats),
      at::empty({query.size(0), query.size(2), query.size(1)}, floats)};
  for (std::int64_t i = 0; i < input.key.size(2); ++i) {
    const GroupInput group = group_of(input, i);
    at::Tensor weights = scores_of(group, scores);
    const at::Tensor log_sum =
        weights.logsumexp({2}).unflatten(1, {group.heads, -1});
    weights.sub_(column_of(log_sum)).exp_().mul_(kept_of(group, i, noise));
    heads_of(result.output, i, group.heads)
        .copy_(from_rows(at::bmm(weights, group.value), group.heads));
    result.log_sum.narrow(1, i * group.heads, group.heads).copy_(log_sum);
  }
  return result;
}

AttentionGradients attend_dropping_partly_backward(
    const at::Tensor& gradient,
    const AttentionInput& input,
    const PartialAttention& whole,
    const Scores& scores,
    const PartialNoise& noise) {
  const WithoutAutocast in_float(c10::autocast_dispatch_keyset);
  const auto like = [](const at::Tensor& x) {
    return at::empty(x.sizes(), x.options().dtype(at::kFloat));
  };
  const AttentionGradients result{
      like(input.query),
      like(input.key),
      like(input.value)};
  for (std::int64_t i = 0; i < input.key.size(2); ++i) {
    const GroupInput group = group_of(input, i);
    const at::Tensor outer = in_rows(heads_of(gradient, i, group.heads));
    const at::Tensor kept = kept_of(group, i, noise);
    const at::Tensor weights =
        scores_of(group, scores)
            .sub_(column_of(
                whole.log_sum.narrow(1, i * group.heads, group.heads)))
            .exp_();
    result.value.select(2, i).copy_(
        at::bmm((weights * kept).transpose(1, 2), outer));
    // The mean of a row's gradients by its weights is that of the whole row,
    // which the output tells.
    const at::Tensor mean =
        (outer * in_rows(heads_of(whole.output, i, group.heads)))
            .sum(2, /*keepdim=*/true);
    const at::Tensor of_scores = at::bmm(outer, group.value.transpose(1, 2))
                                     .mul_(kept)
                                     .sub_(mean)
                                     .mul_(weights)
                                     .mul_(scores.scale);
    heads_of(result.query, i, group.heads)
        .copy_(from_rows(at::bmm(of_scores, group.key), group.heads));
    result.key.select(2, i).copy_(
        at::bmm(of_scores.transpose(1, 2), group.query));
  }
  return result;
}

} // namespace cairn::nn
