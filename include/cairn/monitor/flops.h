#pragma once

#include <cstdint>

// Floating-point operations of training, for TFLOP/s and utilisation (MFU).

namespace cairn::monitor {

/// Sizes of a transformer, whole: not of a rank's part.
struct TransformerShape {
  std::int64_t layers = 0; ///< with an encoder: of the decoder
  /// T5: layers before those, each of which looks at their output too.
  std::int64_t encoder_layers = 0;
  std::int64_t hidden = 0;
  std::int64_t feed_forward = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;   ///< 0: as many as heads
  std::int64_t head_size = 0;  ///< 0: hidden / heads
  std::int64_t vocabulary = 0; ///< of the logits, padding included
  bool gated = false;          ///< SwiGLU and the like: three products, not two
  bool causal = true;          ///< BERT: false
};

/// Megatron-LM's formula: the matrix products of one sample, forward and twice
/// that for backward, a multiplication and an addition each. Attention under a
/// causal mask counts half. What is computed again for activation
/// checkpointing does not count, nor do norms, softmax and embeddings.
/// (T5, which Megatron-LM counts as if it were GPT, is counted by the same
/// rules.) `encoder_sequence` is for shapes with an encoder.
double megatron_flops(
    const TransformerShape& shape,
    std::int64_t sequence,
    std::int64_t encoder_sequence = 0);

/// PaLM's formula (appendix B), as nanoGPT has it, per token: 6 for each
/// parameter, and attention without a mask. About a tenth above Megatron's for
/// short sequences, more for long ones.
double palm_flops_per_token(
    double parameters,
    const TransformerShape& shape,
    std::int64_t sequence);

} // namespace cairn::monitor
