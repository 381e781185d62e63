#include "model/internal/activations.h"

#include <algorithm>

namespace cairn::model {
namespace {

/// Bytes for one token.
struct TokenBytes {
  double whole = 0; ///< alike on all tensor parallel ranks
  double cut = 0;   ///< a part of it on each
};

TokenBytes attention_bytes(
    const ModelDescription& d,
    const ActivationOptions& options) {
  const double bytes = options.element_bytes;
  const auto query = static_cast<double>(d.heads * d.head_size);
  // Each rank has a head of keys and values, which it may share with others.
  const std::int64_t key_value_heads =
      std::max<std::int64_t>(d.key_value_heads, options.tensor_ranks);
  const auto key_value = static_cast<double>(2 * key_value_heads * d.head_size);
  TokenBytes kept{
      .whole = bytes * static_cast<double>(d.hidden), // its input
      .cut = bytes * (query + key_value + query)};    // … and its output
  if (options.recompute == Recompute::nothing) {
    // Weights after softmax; with dropout its mask and result as well.
    const auto scores = static_cast<double>(d.heads * options.sequence);
    kept.cut += scores * (d.attention_dropout > 0 ? 2 * bytes + 1 : bytes);
  }
  return kept;
}

TokenBytes mlp_bytes(
    const ModelDescription& d,
    std::int64_t layer,
    const ActivationOptions& options) {
  const bool experts = experts_in_layer(d, layer) > 0;
  const double mlps = experts
      ? static_cast<double>(d.experts->top_k + (d.experts->residual ? 1 : 0))
      : 1;
  // Before and after the activation; with a gate the other factor and their
  // product as well.
  const double widths = d.gated ? (options.fused_gate ? 3 : 4) : 2;
  return {
      .whole = mlps * options.element_bytes * static_cast<double>(d.hidden),
      .cut =
          mlps * widths * options.element_bytes * static_cast<double>(d.ffn)};
}

} // namespace

double activation_bytes(
    const ModelDescription& d,
    std::int64_t layer,
    const ActivationOptions& options) {
  const auto hidden = static_cast<double>(d.hidden);
  const auto ranks = static_cast<double>(options.tensor_ranks);
  TokenBytes kept{.whole = options.element_bytes * hidden}; // the block's input
  if (options.recompute != Recompute::blocks) {
    const TokenBytes attention = attention_bytes(d, options);
    const TokenBytes mlp = mlp_bytes(d, layer, options);
    constexpr double branches = 2; // attention and MLP
    const double masks = d.dropout > 0 ? branches * hidden : 0;
    const double norms = branches * options.element_bytes * hidden;
    kept = {
        .whole = norms + masks + attention.whole + mlp.whole,
        .cut = attention.cut + mlp.cut};
  }
  const double whole =
      options.sequence_parallel ? kept.whole / ranks : kept.whole;
  return (whole + kept.cut / ranks) *
      static_cast<double>(options.sequence * options.batch);
}

double cross_attention_bytes(
    const ModelDescription& d,
    std::int64_t memory,
    const ActivationOptions& options) {
  if (options.recompute == Recompute::blocks) {
    return 0;
  }
  const double bytes = options.element_bytes;
  const auto hidden = static_cast<double>(d.hidden);
  const auto query = static_cast<double>(d.heads * d.head_size);
  const auto key_value = static_cast<double>(
      2 * std::max<std::int64_t>(d.key_value_heads, options.tensor_ranks) *
      d.head_size);
  const auto ranks = static_cast<double>(options.tensor_ranks);
  // The input of its norm and the norm's output, the dropout's mask.
  const double whole = (2 * bytes + (d.dropout > 0 ? 1 : 0)) * hidden /
      (options.sequence_parallel ? ranks : 1);
  double cut = 2 * bytes * query;
  if (options.recompute == Recompute::nothing) {
    cut += static_cast<double>(d.heads * memory) *
        (d.attention_dropout > 0 ? 2 * bytes + 1 : bytes);
  }
  const auto samples = static_cast<double>(options.batch);
  return samples *
      (static_cast<double>(options.sequence) * (whole + cut / ranks) +
       static_cast<double>(memory) * bytes * key_value / ranks);
}

} // namespace cairn::model
