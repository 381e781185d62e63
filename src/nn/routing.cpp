#include <cairn/nn/routing.h>

#include <ATen/TensorOperators.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/log.h>
#include <ATen/ops/one_hot.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace cairn::nn {
namespace {

/// -log(-log u): added to logarithms of probabilities, the largest sum is drawn
/// by these.
at::Tensor gumbel_noise(const at::Tensor& like) {
  constexpr float least = std::numeric_limits<float>::min();
  constexpr float most = 1 - std::numeric_limits<float>::epsilon();
  const at::Tensor uniform =
      at::rand(like.sizes(), like.options()) * (most - least) + least;
  return -at::log(-at::log(uniform));
}

/// Of each row the element that `columns` names.
at::Tensor chosen_of(const at::Tensor& rows, const at::Tensor& columns) {
  return rows.gather(1, columns.unsqueeze(1)).squeeze(1);
}

/// In fp32, as DeepSpeed computes it.
std::int64_t even_capacity(
    const at::Tensor& scores,
    const RoutingOptions& options) {
  const auto share = static_cast<float>(
      static_cast<double>(scores.size(0)) /
      static_cast<double>(scores.size(1)));
  const auto factor = static_cast<float>(
      options.capacity_factor * static_cast<double>(options.top_k));
  const auto wanted = static_cast<std::int64_t>(std::ceil(share * factor));
  return std::max(wanted, options.min_capacity);
}

/// What all ranks of the group have room for.
std::int64_t capacity_for(
    const at::Tensor& scores,
    const at::Tensor& counts,
    const RoutingOptions& options,
    const distributed::ProcessGroup& group) {
  const std::int64_t tokens = scores.size(0); // no expert gets one twice
  if (options.drop_tokens) {
    return std::min(even_capacity(scores, options), tokens);
  }
  at::Tensor most = counts.max().view({1});
  if (group.size() > 1) {
    most = group.all_reduce(most, distributed::ReduceOp::max).wait();
  }
  return std::max<std::int64_t>(1, most.item<std::int64_t>());
}

/// Choices of one kind: the first expert of every token, or the second.
struct Choices {
  at::Tensor experts; ///< [tokens]
  at::Tensor places;  ///< [tokens]: how many came before
  at::Tensor kept;    ///< [tokens], bool
};

at::Tensor slots_of(
    const Choices& choices,
    std::int64_t capacity,
    std::int64_t experts) {
  const at::Tensor slots = choices.experts * capacity + choices.places;
  return at::where(
      choices.kept,
      slots,
      at::full_like(slots, experts * capacity));
}

at::Tensor kept_gates(const at::Tensor& gates, const Choices& choices) {
  return chosen_of(gates, choices.experts) * choices.kept.to(at::kFloat);
}

Routes route_to_one(
    const at::Tensor& scores,
    const RoutingOptions& options,
    const distributed::ProcessGroup& group) {
  const std::int64_t experts = scores.size(1);
  const at::Tensor gates = at::softmax(scores, 1);
  Choices choices;
  choices.experts = at::argmax(
      options.sample_first ? scores.detach() + gumbel_noise(scores)
                           : gates.detach(),
      1);
  at::Tensor mask = at::one_hot(choices.experts, experts);
  Routes routes{.counts = mask.sum(0)};
  routes.capacity = capacity_for(scores, routes.counts, options, group);
  routes.balance_loss =
      (gates.mean(0) * mask.to(at::kFloat).mean(0)).sum() * experts;
  if (options.drop_tokens && options.random_selection) {
    const at::Tensor drawn = mask * at::rand(mask.sizes(), scores.options());
    const at::Tensor taken =
        std::get<1>(at::topk(drawn, routes.capacity, /*dim=*/0));
    mask = mask * at::zeros_like(mask).scatter_(0, taken, 1);
  }
  choices.places = chosen_of(at::cumsum(mask, 0) - 1, choices.experts);
  choices.kept = chosen_of(mask, choices.experts)
                     .gt(0)
                     .logical_and(choices.places.lt(routes.capacity));
  routes.slots = slots_of(choices, routes.capacity, experts).unsqueeze(0);
  routes.weights = kept_gates(gates, choices).unsqueeze(0);
  return routes;
}

Routes route_to_two(
    const at::Tensor& scores,
    const RoutingOptions& options,
    const distributed::ProcessGroup& group) {
  const std::int64_t experts = scores.size(1);
  const at::Tensor gates = at::softmax(scores, 1);
  Choices first;
  Choices second;
  first.experts = at::argmax(gates.detach(), 1);
  const at::Tensor mask = at::one_hot(first.experts, experts);
  at::Tensor others = scores.detach();
  if (options.sample_second) {
    others = others + gumbel_noise(scores);
  }
  second.experts = at::argmax(
      others.masked_fill(
          mask.to(at::kBool),
          -std::numeric_limits<double>::infinity()),
      1);
  const at::Tensor second_mask = at::one_hot(second.experts, experts);
  const at::Tensor first_counts = mask.sum(0);
  Routes routes{.counts = first_counts + second_mask.sum(0)};
  routes.capacity = capacity_for(scores, routes.counts, options, group);
  routes.balance_loss = (gates.mean(0) * mask.to(at::kFloat).mean(0)).mean() *
      (experts * experts);
  // Second choices come behind all first ones.
  first.places = chosen_of(at::cumsum(mask, 0) - 1, first.experts);
  second.places =
      chosen_of(at::cumsum(second_mask, 0) - 1 + first_counts, second.experts);
  first.kept = first.places.lt(routes.capacity);
  second.kept = second.places.lt(routes.capacity);
  routes.slots = at::stack(
      {slots_of(first, routes.capacity, experts),
       slots_of(second, routes.capacity, experts)});
  const at::Tensor weights =
      at::stack({kept_gates(gates, first), kept_gates(gates, second)});
  routes.weights = weights /
      weights.sum(0, /*keepdim=*/true)
          .clamp_min(std::numeric_limits<float>::epsilon());
  return routes;
}

} // namespace

Routes route(
    const at::Tensor& scores,
    const RoutingOptions& options,
    const distributed::ProcessGroup& group) {
  if (scores.dim() != 2 || scores.scalar_type() != at::kFloat ||
      scores.size(0) < 1 || scores.size(1) < options.top_k) {
    throw ConfigError(
        {.what = "tokens are routed by fp32 scores, [tokens, experts]",
         .values = fmt::format(
             "{} dimensions, {}, top {}",
             scores.dim(),
             c10::toString(scores.scalar_type()),
             options.top_k)});
  }
  switch (options.top_k) {
    case 1:
      return route_to_one(scores, options, group);
    case 2:
      return route_to_two(scores, options, group);
    default:
      throw ConfigError(
          {.what = "a token goes to 1 or 2 experts",
           .where = "--topk",
           .values = fmt::format("{}", options.top_k)});
  }
}

} // namespace cairn::nn
