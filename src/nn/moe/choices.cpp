#include "nn/moe/choices.h"

#include "nn/moe/places.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/log.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/topk.h>
#include <cairn/base/error.h>
#include <fmt/format.h>

#include <limits>

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

/// Loss that is least where the same part of all tokens, those of `sharers`
/// included, chose each expert.
at::Tensor balance_loss(
    const at::Tensor& gates,
    const at::Tensor& counts,
    double factor,
    const distributed::ProcessGroup& sharers) {
  at::Tensor mean = gates.mean(0);
  at::Tensor shares = counts.to(at::kFloat) / gates.size(0);
  if (sharers.size() > 1) {
    const at::Tensor own = at::stack({mean.detach(), shares});
    const at::Tensor all =
        sharers.all_reduce(own.clone()).wait() / sharers.size();
    // The mean of all, with the gradient of this rank's own: those of the
    // others flow on their ranks, and gradients are averaged over the ranks.
    mean = mean + (all[0] - own[0]);
    shares = all[1];
  }
  return (mean * shares).sum() * factor;
}

Choices choose_one(
    const at::Tensor& scores,
    const RoutingOptions& options,
    const distributed::ProcessGroup& sharers) {
  const std::int64_t experts = scores.size(1);
  Choices choices{.gates = at::softmax(scores, 1)};
  const at::Tensor chosen = at::argmax(
      options.sample_first ? scores.detach() + gumbel_noise(scores)
                           : choices.gates.detach(),
      1);
  choices.experts = chosen.unsqueeze(0);
  choices.counts = counts_of(chosen, experts);
  choices.balance_loss = balance_loss(
      choices.gates,
      choices.counts,
      static_cast<double>(experts),
      sharers);
  return choices;
}

Choices choose_two(
    const at::Tensor& scores,
    const RoutingOptions& options,
    const distributed::ProcessGroup& sharers) {
  const std::int64_t experts = scores.size(1);
  Choices choices{.gates = at::softmax(scores, 1)};
  const at::Tensor first = at::argmax(choices.gates.detach(), 1);
  at::Tensor others = options.sample_second
      ? scores.detach() + gumbel_noise(scores)
      : scores.detach().clone();
  others.scatter_(
      1,
      first.unsqueeze(1),
      -std::numeric_limits<double>::infinity());
  const at::Tensor second = at::argmax(others, 1);
  const at::Tensor first_counts = counts_of(first, experts);
  choices.experts = at::stack({first, second});
  choices.counts = first_counts + counts_of(second, experts);
  choices.balance_loss = balance_loss(
      choices.gates,
      first_counts,
      static_cast<double>(experts),
      sharers);
  return choices;
}

Choices choose_many(
    const at::Tensor& scores,
    const RoutingOptions& options,
    const distributed::ProcessGroup& sharers) {
  const std::int64_t experts = scores.size(1);
  Choices choices{.gates = at::softmax(scores, 1)};
  choices.experts = std::get<1>(at::topk(
                                    choices.gates.detach(),
                                    options.top_k,
                                    /*dim=*/1))
                        .t()
                        .contiguous();
  choices.counts = counts_of(choices.experts.view({-1}), experts);
  choices.balance_loss = balance_loss(
      choices.gates,
      choices.counts,
      static_cast<double>(experts) / static_cast<double>(options.top_k),
      sharers);
  return choices;
}

} // namespace

Choices choose(
    const at::Tensor& scores,
    const RoutingOptions& options,
    const distributed::ProcessGroup& sharers) {
  if (scores.dim() != 2 || scores.scalar_type() != at::kFloat ||
      scores.size(0) < 1 || options.top_k < 1 ||
      scores.size(1) < options.top_k) {
    throw UsageError(
        {.what = "tokens are routed by fp32 scores, [tokens, experts], to no "
                 "more experts than there are",
         .values = fmt::format(
             "{} dimensions, {}, top {}",
             scores.dim(),
             c10::toString(scores.scalar_type()),
             options.top_k)});
  }
  switch (options.top_k) {
    case 1:
      return choose_one(scores, options, sharers);
    case 2:
      return choose_two(scores, options, sharers);
    default:
      return choose_many(scores, options, sharers);
  }
}

at::Tensor weights_of(const Choices& choices, const at::Tensor& kept) {
  at::Tensor weights = choices.gates.gather(1, choices.experts.t()).t();
  if (kept.defined()) {
    weights = weights * kept.to(at::kFloat);
  }
  if (choices.experts.size(0) == 1) {
    return weights;
  }
  return weights /
      weights.sum(0, /*keepdim=*/true)
          .clamp_min(std::numeric_limits<float>::epsilon());
}

} // namespace cairn::nn
