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
  RoutingOptions routing{};        ///< in training
  double eval_capacity_factor = 1; ///< in evaluation, where nothing is drawn
  /// In training the router sees every number times one between 1 - this and
  /// 1 + this ("Jitter").
  double jitter = 0;
  /// An MLP for every token beside the experts; how much each counts is learnt
  /// (Residual MoE).
  bool residual = false;
};

/// A mixture of experts in place of an Mlp: a router gives each token to one or
/// two experts, and what they answer is added up by the router's weights. A
/// token that was dropped gets zeros.
///
/// Parameters: "router.weight"; "experts.…" as Experts has them; with
/// `residual` "residual.…" of an Mlp, and "coefficient.weight" and ".bias".
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
  std::shared_ptr<Linear> coefficient_; ///< likewise
};

} // namespace cairn::nn
