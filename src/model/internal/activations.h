#pragma once

#include <cairn/model/description.h>

#include <cstdint>

namespace cairn::model {

/// The activations that the backward pass computes again instead of keeping.
enum class Recompute {
  nothing,
  scores, ///< attention's, as fused attention does
  blocks  ///< all but the input of each block
};

struct ActivationOptions {
  std::int64_t sequence = 0; ///< tokens of each sample
  std::int64_t batch = 1;    ///< samples in a micro batch
  double element_bytes = 2;
  std::int64_t tensor_ranks = 1;
  bool sequence_parallel = false; ///< ranks share what they would all have
  Recompute recompute = Recompute::scores;
  /// The activation of a gate is computed again rather than kept.
  bool fused_gate = false;
};

/// Bytes that one rank keeps of a block's forward pass for its backward pass,
/// counted as in "Reducing Activation Recomputation in Large Transformer
/// Models" (Korthikanti et al., 2022, section 4), for any number of key/value
/// heads, width of the MLP, gate and dropout. `layer` is counted from 0; of the
/// experts of a layer those count that a token is routed to. The attention of
/// T5's decoder to its encoder is not in it.
double activation_bytes(
    const ModelDescription& description,
    std::int64_t layer,
    const ActivationOptions& options);

/// The same of the attention of a block of T5's decoder to its encoder's
/// result, of `memory` tokens for each sample; the result itself is kept once
/// for all blocks and does not count.
double cross_attention_bytes(
    const ModelDescription& description,
    std::int64_t memory,
    const ActivationOptions& options);

} // namespace cairn::model
