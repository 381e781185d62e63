#include <cairn/nn/mixture.h>

#include "nn/loss/picked_rows.h"
#include "nn/moe/choices.h"
#include "nn/moe/ragged_rows.h"
#include "nn/moe/router_scores.h"
#include "nn/moe/token_shares.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/softmax.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <cairn/nn/tensor_parallel.h>

namespace cairn::nn {
namespace {

/// The number of the choice that came to each of `slots` slots; the number of
/// all choices if none did.
at::Tensor comers_of(const at::Tensor& places, std::int64_t slots) {
  const std::int64_t count = places.numel();
  const at::Tensor comers = at::full({slots + 1}, count, places.options());
  comers.scatter_(0, places.view({-1}), at::arange(count, places.options()));
  return comers.narrow(0, 0, slots);
}

} // namespace

Mixture::Mixture(const LayerContext& context, const MixtureOptions& options)
    : options_(options),
      group_(context.group),
      expert_group_(context.expert_group),
      sequence_group_(context.sequence.group),
      split_tokens_(context.splits_tokens()) {
  router_ = register_module(
      "router",
      std::make_shared<Linear>(
          context.in("router"),
          LinearOptions{options.expert.hidden, options.experts, false}));
  experts_ = register_module(
      "experts",
      std::make_shared<Experts>(
          context.in("experts"),
          options.expert,
          options.experts,
          options.activated));
  if (options.residual) {
    residual_ = register_module(
        "residual",
        std::make_shared<Mlp>(context.in("residual"), options.expert));
    coefficient_ = register_module(
        "coefficient",
        std::make_shared<Linear>(
            context.in("coefficient"),
            LinearOptions{options.expert.hidden, 2}));
  }
}

ScoredTokens Mixture::scored(const at::Tensor& tokens) const {
  if (options_.jitter <= 0 || !is_training()) {
    return router_scores(tokens, router_->weight());
  }
  const c10::impl::ExcludeDispatchKeyGuard without_autocast(
      c10::autocast_dispatch_keyset);
  const at::Tensor seen = tokens.to(at::kFloat);
  const auto least = static_cast<float>(1 - options_.jitter);
  const auto most = static_cast<float>(1 + options_.jitter);
  const at::Tensor noise =
      at::rand(seen.sizes(), seen.options()) * (most - least) + least;
  return {router_scores(seen * noise, router_->weight()).scores, tokens};
}

RoutingOptions Mixture::routing() const {
  RoutingOptions routing = options_.routing;
  if (!is_training()) {
    routing.capacity_factor = options_.eval_capacity_factor;
    routing.random_selection = false;
    routing.sample_first = false;
    routing.sample_second = false;
    routing.drop_tokens = routing.drop_tokens && !drops_none_;
  }
  return routing;
}

Mixture::Answers Mixture::answers_with_room(const at::Tensor& x) const {
  const std::int64_t count = x.size(0);
  const std::int64_t hidden = x.size(1);
  const auto [scores, tokens] = scored(x);
  const Routes routes =
      route(scores, routing(), expert_group_, sequence_group_);
  const std::int64_t slots = options_.experts * routes.capacity;

  const at::Tensor comers = comers_of(routes.slots, slots);
  const std::int64_t choices = routes.slots.numel();
  const at::Tensor sources =
      comers.remainder(count).masked_fill_(comers.eq(choices), count);
  const at::Tensor given = picked_rows(tokens, sources, routes.slots);
  const at::Tensor answers =
      experts_->forward(given.view({options_.experts, -1, hidden}));
  return {
      mixed_rows(
          answers.reshape({slots, hidden}),
          routes.slots,
          routes.weights,
          comers),
      routes.balance_loss};
}

Mixture::Answers Mixture::answers_of_groups(const at::Tensor& x) const {
  const auto [scores, tokens] = scored(x);
  const Choices choices = choose(scores, routing(), sequence_group_);
  const RaggedRows rows = ragged_rows(choices.experts, choices.counts);
  const at::Tensor answers = experts_->forward(
      picked_rows(tokens, rows.sources, rows.slots),
      rows.groups);
  return {
      mixed_rows(
          answers,
          rows.slots,
          weights_of(choices, at::Tensor()),
          rows.comers),
      choices.balance_loss};
}

Mixture::Output Mixture::forward(const at::Tensor& x) const {
  const at::Tensor all = split_tokens_ ? gather_tokens(x, group_) : x;
  const at::Tensor tokens = flat_tokens(all);
  const bool in_groups = !routing().drop_tokens && expert_group_.size() == 1;
  const Answers answers =
      in_groups ? answers_of_groups(tokens) : answers_with_room(tokens);
  at::Tensor mixed = answers.tokens.to(x.scalar_type()).view_as(all);

  if (residual_) {
    const at::Tensor parts =
        at::softmax(coefficient_->forward(all), /*dim=*/-1);
    mixed = mixed * parts.narrow(2, 0, 1);
    at::Tensor beside = parts.narrow(2, 1, 1);
    if (split_tokens_) {
      mixed = keep_own_tokens(mixed, group_);
      beside = keep_own_tokens(beside, group_);
    }
    mixed = mixed + residual_->forward(x) * beside;
  } else if (split_tokens_) {
    mixed = keep_own_tokens(mixed, group_);
  }
  return {mixed, answers.balance_loss};
}

} // namespace cairn::nn
