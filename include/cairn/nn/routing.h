#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/distributed/process_group.h>

#include <cstdint>

namespace cairn::nn {

/// How tokens are given to experts, as DeepSpeed's gates do it.
struct RoutingOptions {
  std::int64_t top_k = 1; ///< experts for each token: 1 or 2
  /// Room in every expert, as a multiple of an even share of all choices.
  double capacity_factor = 1;
  std::int64_t min_capacity = 4;
  /// Tokens beyond that are dropped; else there is room for every token.
  bool drop_tokens = true;
  /// With top 1, which of an expert's tokens are dropped is drawn (DeepSpeed's
  /// use_rts); else they are the last.
  bool random_selection = false;
  /// With top 2, the second expert is drawn by its probability (DeepSpeed's
  /// top2_2nd_expert_sampling); else it is the second best.
  bool sample_second = false;
  /// With top 1, the expert is drawn by its probability ("RSample").
  bool sample_first = false;
};

/// Where every token goes. Each expert has `capacity` slots in a row.
struct Routes {
  std::int64_t capacity = 0;
  /// [top_k, tokens]: the slot of each choice; the number of all slots where
  /// the token was dropped.
  at::Tensor slots{};
  /// [top_k, tokens]: how much the expert's answer counts; 0 for dropped ones.
  at::Tensor weights{};
  at::Tensor counts{}; ///< [experts]: choices, dropped ones included
  /// Of one element: least where all experts get as many tokens.
  at::Tensor balance_loss{};
};

/// Of [tokens, experts] scores in fp32. The ranks of `group`, which share out
/// the experts, have as many tokens each and get the same capacity. Random
/// numbers come from the device's default generator.
Routes route(
    const at::Tensor& scores,
    const RoutingOptions& options,
    const distributed::ProcessGroup& group);

} // namespace cairn::nn
