#pragma once

#include <cairn/nn/linear.h>
#include <cairn/nn/rotary.h>

#include <cstdint>
#include <memory>
#include <optional>

namespace cairn::nn {

struct AttentionOptions {
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t key_value_heads = 0; ///< fewer than heads: grouped queries
  std::int64_t head_size = 0;
  bool bias = true;
  bool causal = true;            ///< where there is no mask
  std::optional<double> scale{}; ///< of the scores; else 1 / sqrt(head_size)
  double dropout = 0;
  std::shared_ptr<const Rotary> rotary{};
};

/// What a block needs to know of the batch. Undefined tensors say nothing.
struct BlockInput {
  /// Whom each token sees, [batch or 1, heads or 1, sequence, sequence]: bool,
  /// or numbers that are added to the scores. It then says all: a causal mask
  /// has to be in it.
  at::Tensor mask{};
  at::Tensor positions{}; ///< [batch, sequence], for rotary positions
  at::Tensor memory{};    ///< the encoder's output, for cross attention
  at::Tensor memory_mask{};
  std::int64_t sequence = 0; ///< that positions are of; 0: as long as x
};

/// query [batch, sequence, heads, head_size], key and value likewise with any
/// divisor of the heads; returns [batch, sequence, heads * head_size].
at::Tensor attend(
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    const at::Tensor& mask,
    bool causal,
    std::optional<double> scale,
    double dropout);

/// Parameters query_key_value and dense; the rows of the former are, for each
/// key/value head, its query heads, the key and the value.
class SelfAttention : public Layer {
 public:
  SelfAttention(const LayerContext& context, const AttentionOptions& options);
  at::Tensor forward(const at::Tensor& x, const BlockInput& input) const;

 private:
  AttentionOptions options_;
  distributed::ProcessGroup group_;
  ContextParallel sequence_;
  std::shared_ptr<ColumnLinear> query_key_value_;
  std::shared_ptr<RowLinear> dense_;
};

/// Parameters query, key_value and dense.
class CrossAttention : public Layer {
 public:
  CrossAttention(const LayerContext& context, const AttentionOptions& options);
  at::Tensor forward(const at::Tensor& x, const BlockInput& input) const;

 private:
  AttentionOptions options_;
  distributed::ProcessGroup group_;
  std::shared_ptr<ColumnLinear> query_;
  std::shared_ptr<ColumnLinear> key_value_;
  std::shared_ptr<RowLinear> dense_;
};

} // namespace cairn::nn
