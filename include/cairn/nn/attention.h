#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/model/description.h>
#include <cairn/nn/attention_noise.h>
#include <cairn/nn/linear.h>
#include <cairn/nn/norm.h>
#include <cairn/nn/placed_scores.h>
#include <cairn/nn/shared_head.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace cairn::nn {

struct RotaryOptions {
  std::int64_t head_size = 0; ///< elements of a head that are turned
  double theta = 10000;
  std::optional<model::RopeScaling> scaling{};
};

/// Rotary positions: turns each head's first half against its second by an
/// angle that grows with the position. Elements of a head behind `head_size`
/// stay as they are. YaRN and LongRoPE also make the heads
/// longer. All layers of a model share one object; any number of threads may
/// use it.
class Rotary {
 public:
  explicit Rotary(const RotaryOptions& options);

  /// Cosine and sine, [batch or 1, sequence, 1, head_size / 2]. `positions` are
  /// [batch, sequence]; undefined ones are 0, 1, …. Positions may be those of a
  /// part of the sequence; the angles are then of that part. With LongRoPE the
  /// length of the sequence decides which factors there are.
  std::pair<at::Tensor, at::Tensor> angles(
      const at::Tensor& positions,
      std::int64_t sequence,
      at::ScalarType dtype,
      at::Device device) const;

  /// The elements of a head that are turned.
  std::int64_t head_size() const {
    return 2 * static_cast<std::int64_t>(table_.frequencies.size());
  }

 private:
  /// Tables for the type and device that were asked for last, as long as needed
  /// so far.
  struct Table {
    std::vector<float> frequencies;
    at::Tensor cosine{};
    at::Tensor sine{};
  };
  void grow(
      Table& table,
      std::int64_t sequence,
      at::ScalarType dtype,
      at::Device device) const;

  double factor_ = 1; ///< of cosine and sine
  mutable std::mutex mutex_;
  mutable Table table_;
  mutable Table long_table_; ///< LongRoPE: of texts beyond the original context
  std::optional<std::int64_t> longest_short_;
};

/// Rotates x [batch, sequence, heads, head_size], or the first elements of each
/// head where there are fewer angles; the result is contiguous.
at::Tensor rotate(
    const at::Tensor& x,
    const at::Tensor& cosine,
    const at::Tensor& sine);

struct AttentionOptions {
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t key_value_heads = 0; ///< fewer than `heads`: grouped queries
  std::int64_t head_size = 0;
  bool bias = true;
  bool query_key_value_bias = false; ///< these alone, without `bias`
  /// Set: each head's query and key have a norm, before they are turned.
  std::optional<NormOptions> query_key_norm{};
  bool causal = true; ///< used where there is no mask
  /// Scale of the scores; unset: 1 / sqrt(head_size).
  std::optional<double> scale{};
  double dropout = 0;
  std::shared_ptr<const Rotary> rotary{};
  bool overlap_tokens = false; ///< as in LinearOptions
};

/// Facts of the batch that a block needs. Undefined tensors are not used.
struct BlockInput {
  /// Which tokens each token sees, [batch or 1, heads or 1, sequence,
  /// sequence]: bool, or numbers that are added to the scores. The mask is
  /// complete: for causal attention it must be causal itself.
  at::Tensor mask{};
  at::Tensor positions{}; ///< [batch, sequence], for rotary positions
  /// Instead of a mask; then `causal` of the options counts.
  PlacedScores placed{};
  at::Tensor memory{}; ///< the encoder's output, for cross attention
  at::Tensor memory_mask{};
  /// Numbers of the samples in the run, [batch], for dropout; see
  /// sample_numbers(). Undefined: each dropout draws some.
  at::Tensor samples{};
  std::int64_t sequence = 0; ///< length that `positions` are of; 0: that of x
  /// Ranks that pass keys round a ring: as in AttendOptions.
  at::Tensor first_seen{};
};

/// Options of attend(): how scores become weights.
struct AttendOptions {
  at::Tensor mask{};   ///< as in BlockInput; undefined: none
  bool causal = false; ///< used where there is no mask
  /// Scale of the scores; unset: 1 / sqrt(head_size).
  std::optional<double> scale{};
  double dropout = 0;     ///< of weights
  AttentionNoise noise{}; ///< which of them
  /// The position of the first token that each of this rank's tokens sees,
  /// [batch, own tokens], 64-bit, on the CPU: where its document begins. For
  /// ring attention, which takes no mask. Undefined: that of the sequence.
  at::Tensor first_seen{};
};

/// Attention of query [batch, sequence, heads, head_size] to key and value,
/// which have the same shape with any divisor of the heads. Returns [batch,
/// sequence, heads * head_size].
///
/// `noise` and positions alone decide which weights are dropped, on CPUs and on
/// GPUs.
///
///   attend(query, key, value, {.causal = true});
at::Tensor attend(
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    const AttendOptions& options);

/// Self attention with the parameters query_key_value and dense, and where the
/// options ask for norms query_norm and key_norm, which all heads share. The
/// rows of query_key_value are, for each key/value head, its query heads, the
/// key and the value.
class SelfAttention : public Layer {
 public:
  SelfAttention(const LayerContext& context, const AttentionOptions& options);
  at::Tensor forward(const LayerInput& x, const BlockInput& input) const;
  /// The layer that reads the input first.
  const ColumnLinear& first_layer() const { return *query_key_value_; }

 private:
  AttentionOptions options_;
  distributed::ProcessGroup group_;
  SharedHead shared_head_;
  ContextParallel sequence_;
  AttentionNoise noise_; ///< without samples
  /// True when kernels that read queries, keys and values as they lie together
  /// may compute attention: no norm comes between, and heads turn whole.
  bool joins_heads_ = true;
  std::shared_ptr<ColumnLinear> query_key_value_;
  std::shared_ptr<Norm> query_norm_; ///< null if there is none
  std::shared_ptr<Norm> key_norm_;
  std::shared_ptr<RowLinear> dense_;
};

/// Cross attention with the parameters query, key_value and dense.
class CrossAttention : public Layer {
 public:
  CrossAttention(const LayerContext& context, const AttentionOptions& options);
  at::Tensor forward(const at::Tensor& x, const BlockInput& input) const;

 private:
  AttentionOptions options_;
  distributed::ProcessGroup group_;
  SharedHead shared_head_;
  AttentionNoise noise_; ///< without samples
  std::shared_ptr<ColumnLinear> query_;
  std::shared_ptr<ColumnLinear> key_value_;
  std::shared_ptr<RowLinear> dense_;
};

} // namespace cairn::nn
