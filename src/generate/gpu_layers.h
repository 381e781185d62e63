#pragma once

#include "generate/gpu_cache.h"
#include "generate/gpu_weights.h"
#include "kernels/internal/cuda/few_rows.h"
#include "kernels/internal/cuda/text_rows.h"

#include <ATen/core/Tensor.h>
#include <cairn/model/description.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace cairn::generate {

/// More bytes than any weight has.
inline constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

/// The default of GpuStepOptions::whole_from: not before the texts and the
/// speed of whole steps within a decoder were measured on a GPU. With 0, all
/// models that the kernel takes have whole steps.
inline constexpr std::int64_t whole_steps_from = never;

/// Ways to compute a step, all of which give the same but for rounding. Tests
/// and benchmarks choose others than the default.
struct GpuStepOptions {
  bool records = true; ///< steps are recorded, and repeated as CUDA graphs
  bool early = true;   ///< kernels begin while those before them end
  /// The steps of one text are a single kernel where it takes the model and the
  /// widest weight of a block has at least so many bytes.
  std::int64_t whole_from = whole_steps_from;
  bool shares_units = true; ///< of whole steps: see TextStepShape
  /// Models whose widest weight of a block has at least so many bytes take
  /// weights by copies (see FewRowsProduct): below, a block's ring costs more
  /// than it brings.
  std::int64_t copied_from = std::int64_t{8} << 20;
  std::size_t copied_bytes = kernels::cuda::FewRowsProduct{}.copied_bytes;
  bool fetches_ahead = true; ///< where weights do not come by copies
  /// Steps of at most so many rows use the products for few rows.
  std::int64_t few_rows = kernels::cuda::most_few_rows;
};

/// Memory for the rows of a pass. All but the floats has the weights' type.
struct GpuMemory {
  at::Tensor hidden;    ///< [rows, hidden], the residual stream
  at::Tensor normal;    ///< [rows, hidden]
  at::Tensor projected; ///< [rows, queries, keys and values]
  at::Tensor attended;  ///< [rows, heads * head_size]
  at::Tensor up;        ///< [rows, ffn]
  at::Tensor gate{};    ///< [rows, ffn], where the model has gates
};

/// Tokens of a prompt that a pass computes: positions `begin` to `end - 1` of
/// the text at a place, in rows from `row` on.
struct PromptRows {
  std::int64_t place = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t row = 0;

  std::int64_t count() const { return end - begin; }
};

/// A model's layers as work that is queued on a GPU.
class GpuLayers {
 public:
  /// `positions`: of the longest text.
  GpuLayers(
      const model::ModelDescription& model,
      GpuWeights weights,
      std::int64_t positions,
      const GpuStepOptions& options);

  const GpuWeights& weights() const { return weights_; }
  GpuMemory memory(std::int64_t rows) const;
  /// The row of the tables of angles for a position of a text that has so many
  /// tokens.
  std::int64_t angle(std::int64_t position, std::int64_t text_length) const {
    return text_length > longest_short_ ? short_angles_ + position : position;
  }
  /// True where decode() never waits for the GPU, so that it can be recorded.
  bool can_be_recorded() const;
  /// Bytes of the widest weight of a block.
  std::int64_t widest_bytes() const;
  /// Columns that a row of scores has in memory: a multiple of eight.
  std::int64_t score_columns() const { return weights_.head.weight.size(0); }

  /// The number of blocks of threads that share a row's keys.
  int splits(std::int64_t rows, std::int64_t longest) const;
  /// What attention with several splits needs.
  struct Splits {
    int count = 1;
    at::Tensor parts{};
    at::Tensor counters{}; ///< zeros
  };
  Splits make_splits(std::int64_t rows, int count) const;

  /// Computes one token of each text: from its row to `scores`, [rows,
  /// score_columns()], floats.
  void decode(
      const kernels::cuda::TextRows& rows,
      const GpuCache& cache,
      const Splits& splits,
      const GpuMemory& memory,
      const at::Tensor& scores,
      void* stream) const;

  /// True for prompts whose attention is that of single tokens: their rows come
  /// first. The attention of others is computed in tiles, which needs pieces
  /// that are worth it.
  bool is_short(const PromptRows& prompt) const;

  /// Computes pieces of prompts, whose keys and values are kept. Returns the
  /// residual stream behind the last block.
  at::Tensor read(
      const kernels::cuda::TextRows& rows,
      std::span<const PromptRows> prompts,
      const GpuCache& cache,
      GpuMemory memory,
      void* stream) const;

  /// Scores of those rows of `hidden` that `which` names, 32 bits, on the GPU.
  void score(
      const at::Tensor& hidden,
      const at::Tensor& which,
      const at::Tensor& scores,
      void* stream) const;

 private:
  struct Product;

  kernels::cuda::TextHeads heads() const;
  kernels::cuda::TextNorm norm(const GpuNorm& norm) const;
  kernels::cuda::Start start() const;
  void embed(
      const kernels::cuda::TextRows& rows,
      const GpuMemory& memory,
      void* stream) const;
  void multiply(const Product& product, void* stream) const;
  bool multiply_many(
      const Product& product,
      const at::Tensor& x,
      const GpuLinear& linear,
      const at::Tensor& y,
      void* stream) const;
  bool multiply_few(const Product& product, void* stream) const;
  bool takes_copies() const;
  void normalize(
      const at::Tensor& x,
      const GpuNorm& norm,
      const at::Tensor& y,
      void* stream) const;
  void add_answers(
      const GpuBlock& block,
      const at::Tensor& hidden,
      const at::Tensor& normal,
      void* stream) const;
  at::Tensor compute_inner(
      const GpuBlock& block,
      const GpuMemory& memory,
      std::int64_t rows,
      void* stream) const;
  void add_apart(
      const at::Tensor& x,
      const GpuLinear& linear,
      GpuMemory& memory,
      void* stream) const;
  void attend_prompts(
      const kernels::cuda::TextRows& rows,
      std::span<const PromptRows> prompts,
      const GpuCache& cache,
      std::int64_t layer,
      const GpuMemory& memory,
      void* stream) const;
  struct SplitHeads;
  SplitHeads split_heads(
      std::span<const PromptRows> prompts,
      const at::Tensor& projected) const;
  void attend_in_tiles(
      std::span<const PromptRows> alike,
      const kernels::cuda::KeptPages& pages,
      const SplitHeads& split,
      const at::Tensor& attended,
      void* stream) const;
  bool has_tiles() const;

  model::ModelDescription model_;
  GpuWeights weights_;
  GpuStepOptions options_;
  at::Tensor workspace_; ///< of products
  /// [angles, head_size / 2], floats: of all positions, or with LongRoPE of
  /// those of short texts, and behind them of those of long ones.
  at::Tensor cosine_{};
  at::Tensor sine_{};
  std::int64_t longest_short_; ///< see longest_short_text()
  std::int64_t short_angles_ = 0;
};

} // namespace cairn::generate
