#pragma once

#include "plan/internal/constants.h"

#include <cairn/plan/estimate.h>

#include <cstdint>
#include <optional>

namespace cairn::plan {

/// Seconds that one rank computes.
struct ComputeTime {
  double products = 0;
  double attention = 0;
  double elementwise = 0;
  double host = 0; ///< in which the GPU waits for the host

  double total() const { return products + attention + elementwise + host; }
  ComputeTime& operator+=(const ComputeTime& other);
  ComputeTime times(double factor) const;
};

/// Both passes of a piece of a model over one micro batch.
struct PieceTime {
  ComputeTime forward;
  ComputeTime backward;
};

/// Operations that a GPU computes in a second, as published, in the width of
/// the training's values.
double peak_flops(const Training& training, const Gpu& gpu);

/// Seconds of a linear layer's products.
struct ProductTime {
  double forward = 0;
  double backward = 0; ///< the gradients of its input and of its weight
  ProductTime& operator+=(const ProductTime& other);
  ProductTime times(double factor) const;
};

/// What attention does with its scores.
struct AttentionKind {
  bool causal = false;
  bool placed = false; ///< a number for each distance is added
};

/// Time of the pieces of a model on a GPU.
///
/// A product takes what was measured for its size, where that is known. Else it
/// takes the time of its operations at the speed of large products, and the
/// time of its three matrices in memory: a roofline without a corner, which
/// gives small and narrow products their lower speed.
class BlockTime {
 public:
  BlockTime(
      const Constants& constants,
      const Training& training,
      const RunLayout& layout,
      const Gpu& gpu);

  PieceTime block(std::int64_t layer) const;
  /// The parts of a block that the layout has computed again in backward, where
  /// the block as a whole is not.
  ComputeTime parts_again(std::int64_t layer) const;
  PieceTime embedding() const;
  PieceTime head() const;
  /// Seconds to read or write so many bytes, of tensors of so many; 0: large
  /// ones.
  double traffic(double bytes, double tensor = 0) const;

 private:
  double alignment(double m, double n, double k) const;
  /// Part of the speed of plain attention that attention of this kind has.
  double share_of(AttentionKind kind) const;
  /// Seconds of attention's operations where scores stay in registers.
  PieceTime fused_attention(double operations, double keys, AttentionKind kind)
      const;
  /// The same from the speeds that were measured; unset where none were.
  std::optional<PieceTime> measured_attention(
      double operations,
      double keys,
      AttentionKind kind) const;
  /// Seconds of a layer from k values to n, for m tokens.
  ProductTime product(double m, double n, double k, bool eight_bit) const;
  /// The same from the speeds that were measured; unset where none were.
  std::optional<ProductTime> measured_product(
      double m,
      double n,
      double k,
      bool eight_bit) const;
  /// Adds attention of `tokens` to so many keys of each sample.
  void add_attention(
      double tokens,
      double keys,
      AttentionKind kind,
      PieceTime& time) const;
  ProductTime mlp_products(std::int64_t layer, double tokens) const;
  bool in_decoder(std::int64_t layer) const;

  const Constants& constants_;
  const Training& training_;
  const RunLayout& layout_;
  const Gpu& gpu_;
  double value_bytes_;
  double flops_; ///< a second, in large products
  double tokens_;
  double decoder_tokens_; ///< of T5's decoder
  double ranks_;
  double passes_;  ///< over memory, by the program
  double kernels_; ///< of a block's forward pass
};

} // namespace cairn::plan
