#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/distributed/process_group.h>
#include <cairn/nn/attention_noise.h>

namespace cairn::nn {

/// Options of ring_attention(): how scores become weights.
struct RingOptions {
  double scale = 1;
  double dropout = 0;      ///< of weights
  AttentionNoise noise{};  ///< which of them
  at::Tensor first_seen{}; ///< as in AttendOptions; may be undefined
};

/// Causal attention of this rank's two pieces of a sequence to all of it; every
/// rank holds two pieces (sequence_halves.h). Keys and values go round the
/// ranks, and move on while they are used. Shapes are those of attend_partly().
at::Tensor ring_attention(
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    const RingOptions& options,
    const distributed::ProcessGroup& group);

} // namespace cairn::nn
