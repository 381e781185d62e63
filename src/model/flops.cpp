#include "model/internal/flops.h"

namespace cairn::model {
namespace {

// Forward, gradient of the weights, gradient of the input. Each product of [m,
// n] and [n, k] takes m n k multiplications and as many additions.
constexpr double passes = 3;
constexpr double operations = 2;

/// The MLP's size, on average over the layers of a stack: a token passes
/// through as many experts as it is routed to, and the MLP beside them.
std::int64_t active_ffn(const ModelDescription& d, std::int64_t layers) {
  std::int64_t mlps = 0;
  for (std::int64_t i = 0; i < layers; ++i) {
    mlps += experts_in_layer(d, i) == 0
        ? 1
        : d.experts->top_k + (d.experts->residual ? 1 : 0);
  }
  return d.ffn * mlps / layers;
}

/// Multiplications in the forward pass of one sample.
struct ForwardProducts {
  const ModelDescription& description;
  double hidden, query, key_value;
  double mlp_products;

  explicit ForwardProducts(const ModelDescription& d)
      : description(d),
        hidden(static_cast<double>(d.hidden)),
        query(static_cast<double>(d.head_size * d.heads)),
        key_value(static_cast<double>(d.head_size * d.key_value_heads)),
        mlp_products(d.gated ? 3 : 2) {}

  /// Queries of `tokens` over `keys`; the mask leaves the part `share`.
  double attention(double tokens, double keys, double share) const {
    const double projections =
        tokens * hidden * 2 * query + keys * hidden * 2 * key_value;
    return projections + 2 * tokens * keys * query * share;
  }
  /// A stack of blocks that attend to their own tokens.
  double stack(std::int64_t layers, double tokens, double share) const {
    const auto ffn = static_cast<double>(active_ffn(description, layers));
    const double mlp = tokens * mlp_products * hidden * ffn;
    return static_cast<double>(layers) *
        (mlp + attention(tokens, tokens, share));
  }
};

constexpr double causal = 0.5;
constexpr double both_ways = 1.0;

} // namespace

double megatron_flops(
    const ModelDescription& d,
    std::int64_t sequence,
    std::int64_t decoder_sequence) {
  const ForwardProducts forward(d);
  const auto text = static_cast<double>(sequence);
  double scored = text; // tokens that the head makes words of
  double products = 0;
  switch (kind_of(d.family)) {
    case ModelKind::gpt:
      products = forward.stack(d.layers, text, causal);
      break;
    case ModelKind::bert:
      products = forward.stack(d.layers, text, both_ways);
      break;
    case ModelKind::t5:
      scored = static_cast<double>(decoder_sequence);
      products = forward.stack(d.decoder_layers, scored, causal);
      products += static_cast<double>(d.decoder_layers) *
          forward.attention(scored, text, both_ways);
      products += forward.stack(d.layers, text, both_ways);
      break;
  }
  products +=
      scored * forward.hidden * static_cast<double>(d.padded_vocabulary);
  return passes * operations * products;
}

double palm_flops_per_token(
    double parameters,
    const ModelDescription& d,
    std::int64_t sequence) {
  const ForwardProducts forward(d);
  const bool two_stacks = kind_of(d.family) == ModelKind::t5;
  return 6 * parameters +
      12 * static_cast<double>(two_stacks ? d.decoder_layers : d.layers) *
      forward.query * static_cast<double>(sequence);
}

} // namespace cairn::model
