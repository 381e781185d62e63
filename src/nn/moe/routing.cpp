#include <cairn/nn/mixture.h>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/argsort.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/log.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace cairn::nn {
namespace {

/// Noise -log(-log u). Added to logarithms of probabilities, it makes the
/// largest sum a draw by these probabilities.
at::Tensor gumbel_noise(const at::Tensor& like) {
  constexpr float least = std::numeric_limits<float>::min();
  constexpr float most = 1 - std::numeric_limits<float>::epsilon();
  const at::Tensor uniform =
      at::rand(like.sizes(), like.options()) * (most - least) + least;
  return -at::log(-at::log(uniform));
}

/// The element of each row that `columns` names.
at::Tensor chosen_of(const at::Tensor& rows, const at::Tensor& columns) {
  return rows.gather(1, columns.unsqueeze(1)).squeeze(1);
}

/// The capacity that options.capacity_factor gives, in fp32 as DeepSpeed
/// computes it.
std::int64_t even_capacity(
    const at::Tensor& scores,
    const RoutingOptions& options) {
  const auto share = static_cast<float>(
      static_cast<double>(scores.size(0)) /
      static_cast<double>(scores.size(1)));
  const auto factor = static_cast<float>(
      options.capacity_factor * static_cast<double>(options.top_k));
  // No expert gets a token twice, so more room than tokens is of no use.
  const auto tokens = static_cast<float>(scores.size(0));
  const auto wanted =
      static_cast<std::int64_t>(std::min(tokens, std::ceil(share * factor)));
  return std::min(std::max(wanted, options.min_capacity), scores.size(0));
}

/// The capacity that all ranks of the group use.
std::int64_t capacity_for(
    const at::Tensor& scores,
    const at::Tensor& counts,
    const RoutingOptions& options,
    const distributed::ProcessGroup& group) {
  if (options.drop_tokens) {
    return even_capacity(scores, options);
  }
  at::Tensor most = counts.max().view({1});
  if (group.size() > 1) {
    most = group.all_reduce(most, distributed::ReduceOp::max).wait();
  }
  return std::max<std::int64_t>(1, most.item<std::int64_t>());
}

/// Number of tokens that chose each of `experts`.
at::Tensor counts_of(const at::Tensor& chosen, std::int64_t experts) {
  return at::zeros({experts}, chosen.options())
      .scatter_add_(0, chosen, at::ones_like(chosen));
}

/// The part of all tokens that chose each expert.
at::Tensor shares_of(const at::Tensor& counts, const at::Tensor& scores) {
  return counts.to(at::kFloat) / scores.size(0);
}

/// The number of tokens before each token that chose the same expert. `counts`
/// are those of counts_of(). Found by sorting: a table of tokens by experts
/// would grow with both.
at::Tensor places_of(const at::Tensor& chosen, const at::Tensor& counts) {
  const auto [sorted, order] =
      at::sort(chosen, std::optional<bool>(true)); // stable
  const at::Tensor begins = at::cumsum(counts, 0) - counts;
  return at::empty_like(chosen).scatter_(
      0,
      order,
      at::arange(chosen.numel(), chosen.options()) -
          begins.index_select(0, sorted));
}

/// The number of tokens with the same expert that have a larger number, for
/// each token.
at::Tensor ranks_of(
    const at::Tensor& numbers,
    const at::Tensor& chosen,
    const at::Tensor& counts) {
  const at::Tensor order =
      at::argsort(numbers, std::int64_t{0}, /*descending=*/true);
  return at::empty_like(chosen).scatter_(
      0,
      order,
      places_of(chosen.index_select(0, order), counts));
}

/// Choices of one kind: the first expert of every token, or the second.
struct Choices {
  at::Tensor experts; ///< [tokens]
  at::Tensor places;  ///< [tokens]: number of tokens before it
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
  Routes routes{.counts = counts_of(choices.experts, experts)};
  routes.capacity = capacity_for(scores, routes.counts, options, group);
  routes.balance_loss =
      (gates.mean(0) * shares_of(routes.counts, scores)).sum() * experts;
  if (options.drop_tokens && options.random_selection) {
    const at::Tensor drawn =
        chosen_of(at::rand(scores.sizes(), scores.options()), choices.experts);
    choices.kept =
        ranks_of(drawn, choices.experts, routes.counts).lt(routes.capacity);
    const at::Tensor nobody = at::full_like(choices.experts, experts);
    const at::Tensor kept = at::where(choices.kept, choices.experts, nobody);
    choices.places = places_of(kept, counts_of(kept, experts + 1));
  } else {
    choices.places = places_of(choices.experts, routes.counts);
    choices.kept = choices.places.lt(routes.capacity);
  }
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
  at::Tensor others = options.sample_second
      ? scores.detach() + gumbel_noise(scores)
      : scores.detach().clone();
  others.scatter_(
      1,
      first.experts.unsqueeze(1),
      -std::numeric_limits<double>::infinity());
  second.experts = at::argmax(others, 1);
  const at::Tensor first_counts = counts_of(first.experts, experts);
  const at::Tensor second_counts = counts_of(second.experts, experts);
  Routes routes{.counts = first_counts + second_counts};
  routes.capacity = capacity_for(scores, routes.counts, options, group);
  routes.balance_loss =
      (gates.mean(0) * shares_of(first_counts, scores)).mean() *
      (experts * experts);
  // Second choices come after all first choices.
  first.places = places_of(first.experts, first_counts);
  second.places = places_of(second.experts, second_counts) +
      first_counts.index_select(0, second.experts);
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
    throw UsageError(
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
