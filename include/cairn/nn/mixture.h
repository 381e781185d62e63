#pragma once

#include <cairn/nn/experts.h>
#include <cairn/nn/linear.h>
#include <cairn/nn/mlp.h>
#include <cairn/nn/routing.h>

#include <cstdint>
#include <memory>

namespace cairn::nn {

struct MixtureOptions {
  MlpOptions expert{};
  std::int64_t experts = 0;
  RoutingOptions routing{}; ///< used in training
  /// Capacity factor in evaluation, where nothing is drawn at random.
  double eval_capacity_factor = 1;
  /// Noise in training ("Jitter"): every number that the router sees is
  /// multiplied by a random one between 1 - jitter and 1 + jitter.
  double jitter = 0;
  /// True: every token also passes an MLP beside the experts. How much each
  /// counts is learnt (Residual MoE).
  bool residual = false;
};

/// A mixture of experts in place of an Mlp. A router gives each token to one or
/// two experts, and their answers are added up by the router's weights. A token
/// that was dropped gets zeros.
///
/// Parameters are "router.weight" and "experts.…" as in Experts; with
/// `residual` also "residual.…" as in an Mlp, "coefficient.weight" and
/// "coefficient.bias".
class Mixture : public Layer {
 public:
  Mixture(const LayerContext& context, const MixtureOptions& options);

  struct Output {
    at::Tensor hidden;
    at::Tensor balance_loss; ///< see Routes
  };
  Output forward(const at::Tensor& x) const;

 private:
  at::Tensor scores_of(const at::Tensor& tokens) const;
  RoutingOptions routing() const;

  MixtureOptions options_;
  distributed::ProcessGroup group_;
  distributed::ProcessGroup expert_group_;
  bool split_tokens_;
  std::shared_ptr<Linear> router_;
  std::shared_ptr<Experts> experts_;
  std::shared_ptr<Mlp> residual_;       ///< may be null
  std::shared_ptr<Linear> coefficient_; ///< null without `residual_`
};

} // namespace cairn::nn
