#include <cairn/monitor/flops.h>

namespace cairn::monitor {
namespace {

// Forward, gradient of the weights, gradient of the input; each product of
// [m, n] and [n, k] takes m n k multiplications and as many additions.
constexpr double passes = 3;
constexpr double operations = 2;

/// Multiplications of one forward pass of one sample.
struct ForwardProducts {
  double hidden, feed_forward, query, key_value;
  double feed_forward_products;

  explicit ForwardProducts(const TransformerShape& shape)
      : hidden(static_cast<double>(shape.hidden)),
        feed_forward(static_cast<double>(shape.feed_forward)),
        feed_forward_products(shape.gated ? 3 : 2) {
    const auto size = static_cast<double>(
        shape.head_size > 0 ? shape.head_size : shape.hidden / shape.heads);
    const std::int64_t kv = shape.kv_heads > 0 ? shape.kv_heads : shape.heads;
    query = size * static_cast<double>(shape.heads);
    key_value = size * static_cast<double>(kv);
  }

  double mlp(double tokens) const {
    return tokens * feed_forward_products * hidden * feed_forward;
  }
  /// Queries of `tokens` over `keys`; of which the mask leaves `share`.
  double attention(double tokens, double keys, double share) const {
    const double projections =
        tokens * hidden * 2 * query + keys * hidden * 2 * key_value;
    return projections + 2 * tokens * keys * query * share;
  }
};

} // namespace

double megatron_flops(
    const TransformerShape& shape,
    std::int64_t sequence,
    std::int64_t encoder_sequence) {
  const ForwardProducts forward(shape);
  const auto tokens = static_cast<double>(sequence);
  const auto encoded = static_cast<double>(encoder_sequence);
  const auto layers = static_cast<double>(shape.layers);
  double products = layers *
      (forward.mlp(tokens) +
       forward.attention(tokens, tokens, shape.causal ? 0.5 : 1.0));
  if (shape.encoder_layers > 0) {
    products += layers * forward.attention(tokens, encoded, 1.0);
    products += static_cast<double>(shape.encoder_layers) *
        (forward.mlp(encoded) + forward.attention(encoded, encoded, 1.0));
  }
  products += tokens * forward.hidden * static_cast<double>(shape.vocabulary);
  return passes * operations * products;
}

double palm_flops_per_token(
    double parameters,
    const TransformerShape& shape,
    std::int64_t sequence) {
  const ForwardProducts forward(shape);
  return 6 * parameters +
      12 * static_cast<double>(shape.layers) * forward.query *
      static_cast<double>(sequence);
}

} // namespace cairn::monitor
