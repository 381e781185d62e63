#pragma once

#include <cairn/model/description.h>

#include <cstdint>

// Descriptions of well-known models. models::make_model() builds them.

namespace cairn::model {

struct ModelSizes {
  std::int64_t layers = 12;
  std::int64_t hidden = 768;
  std::int64_t heads = 12;
  std::int64_t sequence = 1024; ///< longest
  std::int64_t vocabulary = 50257;
  /// Rows of the embedding, for speed; 0: as many as the vocabulary.
  std::int64_t padded_vocabulary = 0;
  double dropout = 0;
};

/// Norms before, GELU, biases, learned positions, tied embeddings: GPT-2, and
/// Megatron's GPT.
ModelDescription gpt_description(const ModelSizes& sizes);

/// RMSNorm, SwiGLU, rotary positions, no biases, a head of its own.
ModelDescription llama_description(
    const ModelSizes& sizes,
    std::int64_t key_value_heads,
    std::int64_t ffn);

enum class BinaryHead { with, without };

/// Megatron's BERT, with norms before: fills in masked words and tells if two
/// sentences are in their order.
ModelDescription bert_description(
    const ModelSizes& sizes,
    BinaryHead head = BinaryHead::with);

/// Megatron's T5: an encoder and a decoder of as many layers, learned
/// positions, GELU, biases. `sequence` is the longer of the two.
ModelDescription t5_description(const ModelSizes& sizes);

/// RoBERTa at 6 layers, 8 heads, 256 wide: DeepSpeed's first example.
ModelDescription roberta_small_description();

/// The GPT of the DeepSpeed benchmarks for small texts of characters: 12
/// layers, 768 wide, 2048 tokens, ReLU, a head of its own with a bias.
ModelDescription gpt_lite_description(std::int64_t vocabulary);

/// Width of a gated MLP (SwiGLU) with as many parameters as one of 4 x hidden
/// without a gate, in multiples of 64: Megatron's default.
std::int64_t gated_ffn(std::int64_t hidden);

} // namespace cairn::model
