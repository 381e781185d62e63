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

/// A mixture of experts in place of an Mlp. A router gives each token to one
/// expert or several, and their answers are added up by the router's weights. A
/// token that was dropped gets zeros.
///
/// Where no token is dropped and all experts are on this rank, each expert
/// computes the rows that it got and no others, and on a GPU in 16 bits the
/// host does not wait for the routing.
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
  struct Answers {
    at::Tensor tokens; ///< [tokens, hidden]
    at::Tensor balance_loss;
  };
  /// The experts' answers where each has room for as many tokens as the others.
  Answers answers_with_room(const at::Tensor& tokens) const;
  /// The same where each expert has as many rows as it got.
  Answers answers_of_groups(const at::Tensor& tokens) const;
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
