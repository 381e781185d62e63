#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/distributed/process_group.h>
#include <cairn/nn/layer.h>
#include <cairn/nn/linear.h>
#include <cairn/nn/mlp.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace cairn::nn {

/// The rules for giving tokens to experts, as in DeepSpeed's gates.
struct RoutingOptions {
  std::int64_t top_k = 1; ///< experts for each token
  /// Room in every expert, as a multiple of an even share of all choices.
  double capacity_factor = 1;
  std::int64_t min_capacity = 4;
  /// True: tokens beyond the capacity are dropped. False: there is room for
  /// every token.
  bool drop_tokens = true;
  /// True, with top 1: the tokens of an expert that are dropped are drawn at
  /// random (DeepSpeed's use_rts). False: they are the last ones.
  bool random_selection = false;
  /// True, with top 2: the second expert is drawn by its probability
  /// (DeepSpeed's top2_2nd_expert_sampling). False: it is the second best.
  bool sample_second = false;
  /// True, with top 1: the expert is drawn by its probability ("RSample").
  bool sample_first = false;
  /// True, with more than two experts for a token: the choices of a full expert
  /// that are dropped are the least probable ones (DeepSpeed's drop_policy
  /// "probs"). False: they are those of the last tokens ("position").
  bool drop_least = true;
};

/// The way of every token. Each expert has `capacity` consecutive slots.
struct Routes {
  std::int64_t capacity = 0;
  /// Slot of each choice, [top_k, tokens]. For a dropped token it is the number
  /// of all slots.
  at::Tensor slots{};
  /// Weight of the expert's answer, [top_k, tokens]; 0 for dropped tokens.
  at::Tensor weights{};
  /// Number of choices of each expert, [experts], dropped ones included.
  at::Tensor counts{};
  /// Loss of one element, least where all experts get the same number of
  /// tokens.
  at::Tensor balance_loss{};
};

/// Routes tokens by their scores, [tokens, experts] in fp32. The ranks of
/// `group`, which share out the experts, have the same number of tokens and get
/// the same capacity. Random numbers come from the device's default generator.
/// `sharers` have other tokens of the same sequences: each has room for its own
/// tokens, and the balance loss is that of all.
Routes route(
    const at::Tensor& scores,
    const RoutingOptions& options,
    const distributed::ProcessGroup& group,
    const distributed::ProcessGroup& sharers = {});

/// The rows of a matrix in groups that follow each other, one for each expert.
/// Rows after the last group belong to nobody.
struct RowGroups {
  at::Tensor ends; ///< where each group ends, [groups], int32
  /// The ends as the host knows them. Empty on a GPU until somebody asks: the
  /// host would have to wait for it.
  std::vector<std::int64_t> known_ends{};
};

/// What becomes of an activation's results between forward and backward.
enum class Activated { kept, computed_again };

/// Many MLPs of one shape. Their weights are stacked, [experts, out, in], so
/// that all of them are one product of batches, or of groups of rows. The ranks
/// of the expert group have some experts each and send each other the tokens
/// for these. The ranks of a tensor parallel group have a part of each expert.
///
/// The parameters are called "up.weight", "up.bias" and so on, as in an Mlp.
class Experts : public Layer {
 public:
  Experts(
      const LayerContext& context,
      const MlpOptions& options,
      std::int64_t experts,
      Activated activated = Activated::kept);
  /// Maps [experts, slots, hidden] to the same shape. The number of slots is
  /// the same on every rank of the expert group.
  at::Tensor forward(const at::Tensor& x) const;
  /// Maps rows, [rows, hidden], to the same shape; each expert has a group of
  /// them, of any size. All experts are on this rank.
  at::Tensor forward(const at::Tensor& rows, const RowGroups& groups) const;

 private:
  /// The activation of `wide`, times that of `gate` where experts have one.
  at::Tensor activated(const at::Tensor& wide, const at::Tensor& gate) const;
  /// Gives back activated()'s memory until backward comes to `answers`.
  void forget(
      const at::Tensor& result,
      const at::Tensor& wide,
      const at::Tensor& gate,
      const at::Tensor& answers) const;

  /// The weights of one linear layer of all experts.
  class Product : public Layer {
   public:
    enum class Cut { out, in }; ///< dimension that tensor parallel ranks cut
    Product(
        const LayerContext& context,
        std::int64_t experts,
        const LinearOptions& options,
        Cut cut);
    /// Maps [experts here, tokens, in] to [experts here, tokens, out].
    at::Tensor forward(const at::Tensor& x) const;
    /// Maps groups of rows, [rows, in] to [rows, out].
    at::Tensor forward(const at::Tensor& rows, const RowGroups& groups) const;
    const at::Tensor& weight() const { return weight_; }
    const at::Tensor& bias() const { return bias_; }

   private:
    distributed::ProcessGroup summed_over_; ///< with Cut::in
    at::Tensor weight_;
    at::Tensor bias_;
  };

  distributed::ProcessGroup group_;
  distributed::ProcessGroup expert_group_;
  model::ActivationKind activation_;
  Activated activated_;
  std::shared_ptr<Product> gate_; ///< null: not gated
  std::shared_ptr<Product> up_;
  std::shared_ptr<Product> down_;
};

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
  /// The results of the experts' activation, from forward to backward.
  Activated activated = Activated::kept;
};

struct ScoredTokens;

/// A mixture of experts in place of an Mlp. A router gives each token to one
/// expert or several, and their answers are added up by the router's weights. A
/// token that was dropped gets zeros.
///
/// Each expert computes the rows that it got and no others, if no token is
/// dropped and all experts are on this rank; on a GPU in bf16 the host then
/// does not wait for the routing.
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

  /// True: every token finds room at its experts in evaluation, whatever the
  /// options say, so that an answer depends on its own token alone.
  void drop_none_in_evaluation(bool none) { drops_none_ = none; }
  bool drops_none_in_evaluation() const { return drops_none_; }

 private:
  struct Answers {
    at::Tensor tokens; ///< [tokens, hidden]
    at::Tensor balance_loss;
  };
  /// The experts' answers where each has room for as many tokens as the others.
  Answers answers_with_room(const at::Tensor& tokens) const;
  /// The experts' answers where each has exactly as many rows as it got.
  Answers answers_of_groups(const at::Tensor& tokens) const;
  ScoredTokens scored(const at::Tensor& tokens) const;
  RoutingOptions routing() const;

  MixtureOptions options_;
  distributed::ProcessGroup group_;
  distributed::ProcessGroup expert_group_;
  distributed::ProcessGroup sequence_group_; ///< has other tokens of a sequence
  bool split_tokens_;
  bool drops_none_ = false; ///< in evaluation
  std::shared_ptr<Linear> router_;
  std::shared_ptr<Experts> experts_;
  std::shared_ptr<Mlp> residual_;       ///< may be null
  std::shared_ptr<Linear> coefficient_; ///< null without `residual_`
};

} // namespace cairn::nn
