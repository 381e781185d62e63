#pragma once

#include <cairn/model/description.h>

#include <cstdint>

// Floating-point operations of training, for TFLOP/s and utilisation (MFU).

namespace cairn::model {

/// Operations of one sample by Megatron-LM's formula: the matrix products of
/// the forward pass, and twice as many for the backward pass, counted as a
/// multiplication and an addition each. Attention under a causal mask counts
/// half. Recomputation for activation checkpointing does not count, nor do
/// norms, softmax and embeddings. A token passes through as many experts as it
/// is routed to. (T5, which Megatron-LM counts as if it were GPT, is counted by
/// the same rules.)
///
/// `sequence`: tokens of the text; `decoder_sequence`: those of T5's decoder.
double megatron_flops(
    const ModelDescription& description,
    std::int64_t sequence,
    std::int64_t decoder_sequence = 0);

/// Operations per token by PaLM's formula (appendix B), as in nanoGPT: 6 for
/// each parameter, plus attention without a mask. About a tenth above
/// Megatron's for short sequences, more for long ones.
double palm_flops_per_token(
    double parameters,
    const ModelDescription& description,
    std::int64_t sequence);

} // namespace cairn::model
