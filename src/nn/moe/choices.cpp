#include "nn/moe/choices.h"

#include "nn/moe/kernel_choices.h"
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

/// The loss that is least where the same part of all tokens, those of `sharers`
/// included, chose each expert.
at::Tensor balance_loss(
    const at::Tensor& means,
    const at::Tensor& counts,
    std::int64_t tokens,
    double factor,
    const distributed::ProcessGroup& sharers) {
  at::Tensor mean = means;
  at::Tensor shares = counts.to(at::kFloat) / tokens;
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

/// The chosen experts, [top_k, tokens].
at::Tensor experts_of(
    const at::Tensor& scores,
    const at::Tensor& gates,
    const RoutingOptions& options) {
  if (options.top_k > 2) {
    return std::get<1>(at::topk(gates, options.top_k, /*dim=*/1))
        .t()
        .contiguous();
  }
  const bool draws = options.top_k == 1 && options.sample_first;
  const at::Tensor first =
      at::argmax(draws ? scores + gumbel_noise(scores) : gates, 1);
  if (options.top_k == 1) {
    return first.unsqueeze(0);
  }
  at::Tensor others =
      options.sample_second ? scores + gumbel_noise(scores) : scores.clone();
  others.scatter_(
      1,
      first.unsqueeze(1),
      -std::numeric_limits<double>::infinity());
  return at::stack({first, at::argmax(others, 1)});
}

Picked pick_by_operators(
    const at::Tensor& scores,
    const RoutingOptions& options) {
  const at::Tensor gates = at::softmax(scores, 1);
  Picked picked{
      .experts = experts_of(scores.detach(), gates.detach(), options)};
  picked.gates = gates.gather(1, picked.experts.t()).t();
  picked.means = gates.mean(0);
  picked.counts = counts_of(picked.experts.view({-1}), scores.size(1));
  picked.firsts = options.top_k == 1
      ? picked.counts
      : counts_of(picked.experts[0], scores.size(1));
  return picked;
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
  const Picked picked = has_choice_kernels(scores, options)
      ? pick_by_kernel(scores, options.top_k)
      : pick_by_operators(scores, options);
  const auto experts = static_cast<double>(scores.size(1));
  const bool counts_all = options.top_k > 2;
  return {
      .experts = picked.experts,
      .gates = picked.gates,
      .counts = picked.counts,
      .balance_loss = balance_loss(
          picked.means,
          counts_all ? picked.counts : picked.firsts,
          scores.size(0),
          counts_all ? experts / static_cast<double>(options.top_k) : experts,
          sharers)};
}

at::Tensor weights_of(const Choices& choices, const at::Tensor& kept) {
  at::Tensor weights = choices.gates;
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
