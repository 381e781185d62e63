#include <cairn/nn/attention.h>

#include "nn/attention/dropped_attention.h"
#include "nn/attention/gpu_attention.h"
#include "nn/attention/head_attention.h"
#include "nn/attention/longer_heads.h"
#include "nn/linear/compute_type.h"
#include "nn/linear/dropout_key.h"
#include "nn/linear/wide_compute.h"

#include <ATen/ops/scaled_dot_product_attention.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

namespace cairn::nn {
namespace {

[[noreturn]] void refuse_division(
    const char* what,
    std::int64_t heads,
    const distributed::ProcessGroup& group) {
  throw ConfigError(
      {.what = fmt::format("tensor parallelism does not divide {}", what),
       .where = "tensor-model-parallel-size",
       .values = fmt::format("{} over {} ranks", heads, group.size()),
       .remedy = "choose a tensor parallel size that divides it"});
}

/// The options with the heads of this rank. Ranks that share a head of keys and
/// values have one each. Throws ConfigError where the ranks cannot share the
/// heads.
AttentionOptions on_this_rank(
    AttentionOptions options,
    const distributed::ProcessGroup& group) {
  const int ranks = group.size();
  if (options.heads % ranks != 0) {
    refuse_division("the attention heads", options.heads, group);
  }
  if (options.key_value_heads % ranks != 0 &&
      ranks % options.key_value_heads != 0) {
    refuse_division("the key and value heads", options.key_value_heads, group);
  }
  options.heads /= ranks;
  options.key_value_heads =
      std::max<std::int64_t>(1, options.key_value_heads / ranks);
  return options;
}

/// The head of keys and values that this rank uses, with `queries` of its own
/// in the same columns. `whole` are the options of all ranks.
SharedHead shared_head_of(
    const AttentionOptions& whole,
    std::int64_t queries,
    const distributed::ProcessGroup& group) {
  return {
      .ranks = static_cast<int>(
          std::max<std::int64_t>(1, group.size() / whole.key_value_heads)),
      .query_columns = queries * whole.head_size,
      .key_value_columns = 2 * whole.head_size};
}

/// Turns [batch, sequence, groups, n, size] into [batch, sequence, heads,
/// size].
at::Tensor joined_heads(const at::Tensor& x) {
  return x.size(3) == 1 ? x.squeeze(3) : x.flatten(2, 3);
}

std::shared_ptr<ColumnLinear> column(
    const LayerContext& context,
    const AttentionOptions& options,
    std::int64_t out) {
  return std::make_shared<ColumnLinear>(
      context,
      LinearOptions{
          options.hidden,
          out,
          options.bias || options.query_key_value_bias,
          options.overlap_tokens});
}

std::shared_ptr<RowLinear> dense_of(
    const LayerContext& context,
    const AttentionOptions& options) {
  return std::make_shared<RowLinear>(
      context.in("dense"),
      LinearOptions{
          options.heads * options.head_size,
          options.hidden,
          options.bias,
          options.overlap_tokens});
}

/// The context of a layer that makes queries. Where scores have a scale of
/// their own (T5's scores are not scaled), initial queries are smaller or
/// larger, so that scores start as in other models. The rows of a group are its
/// queries and then `others` more heads.
LayerContext with_scaled_queries(
    LayerContext context,
    const AttentionOptions& options,
    std::int64_t others) {
  if (context.initial && options.scale) {
    const std::int64_t queries = options.heads / options.key_value_heads;
    context.initial->divided = {
        .period = (queries + others) * options.head_size,
        .rows = queries * options.head_size,
        .by =
            *options.scale * std::sqrt(static_cast<double>(options.head_size))};
  }
  return context;
}

double scale_or_default(
    const std::optional<double>& scale,
    std::int64_t head_size) {
  return scale.value_or(1 / std::sqrt(static_cast<double>(head_size)));
}

/// Refuses attention that ranks which share a sequence cannot compute: it must
/// be causal, and must not need anything that only the whole sequence tells.
void check_shared(const AttentionOptions& options) {
  if (!options.causal) {
    throw ConfigError(
        {.what = "ranks share sequences of left-to-right models only",
         .where = "--context-parallel-size",
         .remedy = "set it to 1"});
  }
}

void check_shared(const BlockInput& input, const AttentionOptions& options) {
  if (options.rotary && !input.positions.defined()) {
    throw UsageError(
        {.what = "a part of a sequence comes with its positions",
         .remedy = "cut the whole batch with own_sequence()"});
  }
}

/// The noise of a layer whose heads the ranks share; `options` are this rank's.
AttentionNoise noise_of(
    const LayerContext& context,
    const AttentionOptions& options) {
  return {
      .key = dropout_key(context, "dropout"),
      .first_head = context.group.rank() * options.heads};
}

AttentionNoise with_samples(AttentionNoise noise, const at::Tensor& samples) {
  noise.samples = samples;
  return noise;
}

} // namespace

at::Tensor attend(
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    const AttendOptions& options) {
  const auto& [mask, causal, scale, dropout, noise, first_seen] = options;
  if (first_seen.defined()) {
    throw UsageError(
        {.what = "attention to a whole sequence takes a mask, not where "
                 "documents begin"});
  }
  if (computes_wide(query)) {
    const c10::impl::ExcludeDispatchKeyGuard without_autocast(
        c10::autocast_dispatch_keyset);
    AttendOptions wide = options;
    wide.mask = widened(mask);
    return attend(widened(query), widened(key), widened(value), wide)
        .to(query.scalar_type());
  }
  const AttentionInput input{query, key, value};
  if (!mask.defined() && attends_by_heads(input, dropout)) {
    return attend_by_heads(
        input,
        {.causal = causal, .scale = scale_or_default(scale, query.size(3))});
  }
  if (dropout > 0) {
    return attend_dropping(input, options);
  }
  const std::int64_t size = query.size(3);
  if (query.is_cuda() && at::isReducedFloatingType(query.scalar_type()) &&
      size % 8 != 0) {
    const AttentionInput longer = in_whole_eights(input);
    AttendOptions how = options;
    how.scale = scale_or_default(scale, size);
    return attend(longer.query, longer.key, longer.value, how)
        .unflatten(2, {-1, longer.query.size(3)})
        .narrow(3, 0, size)
        .flatten(2, 3);
  }
  const std::int64_t shared = query.size(2) / key.size(2);
  // The fused attention of the CPU has no grouped queries.
  const bool repeat = shared > 1 && query.is_cpu();
  const auto repeated = [&](const at::Tensor& x) {
    return heads_first(
        repeat ? x.unsqueeze(3).expand({-1, -1, -1, shared, -1}).flatten(2, 3)
               : x);
  };
  const at::Tensor result = at::scaled_dot_product_attention(
      heads_first(query),
      repeated(key),
      repeated(value),
      mask.defined() ? std::optional(mask) : std::nullopt,
      /*dropout_p=*/0,
      causal && !mask.defined(),
      scale,
      shared > 1 && !repeat);
  return heads_first(result).flatten(2, 3);
}

SelfAttention::SelfAttention(
    const LayerContext& context,
    const AttentionOptions& options)
    : options_(on_this_rank(options, context.group)),
      group_(context.group),
      shared_head_(shared_head_of(options, options_.heads, group_)),
      sequence_(context.sequence),
      noise_(noise_of(context, options_)) {
  if (sequence_.is_on()) {
    check_shared(options_);
    check_heads(options_.heads, options_.key_value_heads, sequence_);
  }
  query_key_value_ = register_module(
      "query_key_value",
      column(
          with_scaled_queries(context.in("query_key_value"), options, 2),
          options,
          (options.heads + 2 * options.key_value_heads) * options.head_size));
  if (options.query_key_norm) {
    const auto norm = [&](const std::string& name) {
      return register_module(
          name,
          std::make_shared<Norm>(
              context.in(name),
              options.head_size,
              *options.query_key_norm,
              Gradient::of_own_heads));
    };
    query_norm_ = norm("query_norm");
    key_norm_ = norm("key_norm");
  }
  joins_heads_ = !options.query_key_norm &&
      (!options.rotary || options.rotary->head_size() == options.head_size);
  dense_ = register_module("dense", dense_of(context, options));
}

at::Tensor SelfAttention::forward(
    const LayerInput& given,
    const BlockInput& input) const {
  const at::Tensor& x = given.x;
  if (sequence_.is_on()) {
    check_shared(input, options_);
  }
  const std::int64_t groups = options_.key_value_heads;
  const std::int64_t queries = options_.heads / groups;
  const double dropout = is_training() ? options_.dropout : 0;
  const bool plain = !sequence_.is_on() && dropout == 0;
  const Scores scores{
      .causal = options_.causal,
      .scale = scale_or_default(options_.scale, options_.head_size)};
  const auto angles_of = [&](std::int64_t tokens, at::ScalarType type) {
    RotaryAngles angles;
    if (options_.rotary) {
      std::tie(angles.cosine, angles.sine) = options_.rotary->angles(
          input.positions,
          std::max(input.sequence, tokens * sequence_.group.size()),
          type,
          x.device());
    }
    return angles;
  };
  const auto self_scores = [&](std::int64_t tokens, at::ScalarType type) {
    return SelfScores{
        scores,
        angles_of(tokens, type),
        input.mask,
        input.placed,
        dropout,
        with_samples(noise_, input.samples)};
  };
  if (joins_heads_ && !sequence_.is_on() && group_.size() == 1 && x.is_cuda()) {
    if (const auto attended = project_and_attend_on_gpu(
            given,
            {query_key_value_->weight(),
             query_key_value_->bias(),
             groups,
             options_.head_size,
             query_key_value_->fp8()},
            self_scores(
                x.size(1),
                in_compute_type(query_key_value_->weight()).scalar_type()))) {
      return dense_->forward(*attended);
    }
  }
  const at::Tensor all =
      exchange_head(query_key_value_->forward(given), shared_head_, group_);
  const at::Tensor joined =
      all.view({all.size(0), all.size(1), groups, -1, options_.head_size});
  const bool placed = input.placed.defined();
  if (joins_heads_ && plain && !options_.rotary && !input.mask.defined() &&
      !placed && attends_joined(joined, scores)) {
    return dense_->forward(attend_joined(joined, scores));
  }
  if (joins_heads_ && !sequence_.is_on() && (dropout > 0 || placed) &&
      joined.is_cuda()) {
    const SelfScores how = self_scores(all.size(1), all.scalar_type());
    if (attends_joined_on_gpu(joined, how)) {
      return dense_->forward(attend_joined_on_gpu(joined, how).flatten(2, 3));
    }
  }
  const auto parts = joined.split_with_sizes({queries, 1, 1}, 3);
  at::Tensor query = joined_heads(parts[0]);
  at::Tensor key = joined_heads(parts[1]);
  if (query_norm_) {
    query = query_norm_->forward(query.contiguous());
    key = key_norm_->forward(key.contiguous());
  }
  if (options_.rotary) {
    const auto [cosine, sine] = angles_of(all.size(1), all.scalar_type());
    query = rotate(query, cosine, sine);
    key = rotate(key, cosine, sine);
  }
  const at::Tensor value = joined_heads(parts[2]);
  const AttendOptions how{
      .mask = placed ? placed_mask(
                           input.placed,
                           query.size(1),
                           key.size(1),
                           options_.causal,
                           query.scalar_type())
                     : input.mask,
      .causal = options_.causal,
      .scale = options_.scale,
      .dropout = dropout,
      .noise = with_samples(noise_, input.samples),
      .first_seen = input.first_seen};
  return dense_->forward(
      sequence_.is_on() ? attend_in_context(query, key, value, how, sequence_)
                        : attend(query, key, value, how));
}

CrossAttention::CrossAttention(
    const LayerContext& context,
    const AttentionOptions& options)
    : options_(on_this_rank(options, context.group)),
      group_(context.group),
      shared_head_(shared_head_of(options, /*queries=*/0, group_)),
      noise_(noise_of(context, options_)) {
  query_ = register_module(
      "query",
      column(
          with_scaled_queries(context.in("query"), options, 0),
          options,
          options.heads * options.head_size));
  key_value_ = register_module(
      "key_value",
      column(
          context.in("key_value"),
          options,
          2 * options.key_value_heads * options.head_size));
  dense_ = register_module("dense", dense_of(context, options));
}

at::Tensor CrossAttention::forward(const at::Tensor& x, const BlockInput& input)
    const {
  const auto heads = [&](const at::Tensor& each, std::int64_t count) {
    return each.view(
        {each.size(0), each.size(1), count, -1, options_.head_size});
  };
  const at::Tensor query = query_->forward(x);
  const auto key_value = heads(
                             exchange_head(
                                 key_value_->forward(input.memory),
                                 shared_head_,
                                 group_),
                             options_.key_value_heads)
                             .unbind(3);
  return dense_->forward(attend(
      joined_heads(heads(query, options_.heads)),
      key_value[0],
      key_value[1],
      {.mask = input.memory_mask,
       .causal = false,
       .scale = options_.scale,
       .dropout = is_training() ? options_.dropout : 0,
       .noise = with_samples(noise_, input.samples)}));
}

} // namespace cairn::nn
