#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/distributed/process_group.h>

#include <cstdint>

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
Routes route(
    const at::Tensor& scores,
    const RoutingOptions& options,
    const distributed::ProcessGroup& group);

} // namespace cairn::nn
