#include <cairn/nn/mixture.h>

#include "nn/moe/choices.h"
#include "nn/moe/places.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <cmath>

namespace cairn::nn {
namespace {

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
  // The host waits here: what ranks send each other has a size that the host
  // gives. A rank that has all experts goes another way (ragged_rows.h).
  return std::max<std::int64_t>(1, most.item<std::int64_t>());
}

/// Places of choices in their experts; all are [choices].
struct Placed {
  at::Tensor places;
  at::Tensor kept; ///< bool
};

/// Keeps the choices of each expert with the largest numbers, as many as there
/// is room for. Their places follow the order of the choices.
Placed keep_largest(
    const at::Tensor& numbers,
    const at::Tensor& chosen,
    const at::Tensor& counts,
    std::int64_t capacity) {
  const std::int64_t experts = counts.numel();
  const at::Tensor kept = ranks_of(numbers, chosen, counts).lt(capacity);
  const at::Tensor nobody = at::full_like(chosen, experts);
  const at::Tensor of_kept = at::where(kept, chosen, nobody);
  return {places_of(of_kept, counts_of(of_kept, experts + 1)), kept};
}

Placed keep_first(
    const at::Tensor& chosen,
    const at::Tensor& counts,
    std::int64_t capacity) {
  at::Tensor places = places_of(chosen, counts);
  at::Tensor kept = places.lt(capacity);
  return {std::move(places), std::move(kept)};
}

/// Places of [choices] that stand in this order: all first choices, then all
/// second ones; with more than two, all choices of a token, then those of the
/// next.
Placed place_choices(
    const Choices& choices,
    const at::Tensor& chosen,
    const RoutingOptions& options,
    std::int64_t capacity) {
  const at::Tensor gates = choices.gates.detach();
  if (options.drop_tokens && options.top_k == 1 && options.random_selection) {
    const at::Tensor drawn =
        at::rand({gates.size(1), choices.counts.numel()}, gates.options())
            .gather(1, chosen.unsqueeze(1))
            .squeeze(1);
    return keep_largest(drawn, chosen, choices.counts, capacity);
  }
  if (options.drop_tokens && options.top_k > 2 && options.drop_least) {
    return keep_largest(
        gates.t().reshape({-1}),
        chosen,
        choices.counts,
        capacity);
  }
  return keep_first(chosen, choices.counts, capacity);
}

} // namespace

Routes route(
    const at::Tensor& scores,
    const RoutingOptions& options,
    const distributed::ProcessGroup& group,
    const distributed::ProcessGroup& sharers) {
  const Choices choices = choose(scores, options, sharers);
  Routes routes{.counts = choices.counts, .balance_loss = choices.balance_loss};
  routes.capacity = capacity_for(scores, routes.counts, options, group);
  const std::int64_t slots = scores.size(1) * routes.capacity;
  const bool by_token = options.top_k > 2;
  const at::Tensor chosen =
      by_token ? choices.experts.t().reshape({-1}) : choices.experts.view({-1});
  const Placed placed =
      place_choices(choices, chosen, options, routes.capacity);
  const auto by_choice = [&](const at::Tensor& x) {
    return by_token ? x.view({-1, options.top_k}).t().contiguous()
                    : x.view({options.top_k, -1});
  };
  const at::Tensor all = chosen * routes.capacity + placed.places;
  routes.slots =
      by_choice(at::where(placed.kept, all, at::full_like(all, slots)));
  routes.weights = weights_of(choices, by_choice(placed.kept));
  return routes;
}

} // namespace cairn::nn
