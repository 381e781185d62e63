#pragma once

#include "generate/decoder_weights.h"
#include "generate/kept_texts.h"
#include "generate/relative_table.h"
#include "generate/rotary_table.h"
#include "kernels/internal/cpu/decoder_rows.h"

#include <cairn/model/description.h>

#include <cstdint>
#include <span>
#include <vector>

namespace cairn::generate {

/// The place of a row's token in its text.
struct RowPlace {
  std::int64_t position = 0;
  std::int64_t seen = 0; ///< first tokens of the pages that it looks at
  std::span<float* const> pages{};
  std::int64_t text_length = 0; ///< where rotary positions depend on it
};

/// The columns of a row: for each group its queries, a key and a value.
struct RowHeads {
  std::int64_t groups = 0;
  std::int64_t queries = 0; ///< of a group
  std::int64_t head_size = 0;

  std::int64_t columns() const { return groups * (queries + 2) * head_size; }
};

/// A place in a cache: its shape, and the layer there.
struct CacheLayer {
  const CacheShape& shape;
  std::int64_t layer = 0;
};

/// What the layers of a model do with rows, which are tokens, on the CPU. Large
/// work is shared out to all threads. What a row becomes does not depend on the
/// rows beside it.
class RowOperations {
 public:
  explicit RowOperations(const model::ModelDescription& model);

  /// Writes the norms of the named rows, one after the other.
  void normalize(
      const NormWeights& norm,
      const float* x,
      std::span<const std::int64_t> rows,
      float* y) const;
  /// Writes the products, or adds them to y.
  void multiply(
      const LinearWeights& linear,
      const float* x,
      std::int64_t rows,
      float* y,
      bool adds) const;
  /// Changes to each head before it is kept. All may be null or undefined.
  struct HeadChanges {
    const RotaryTable* rotary = nullptr;
    const NormWeights* query_norm = nullptr;
    const NormWeights* key_norm = nullptr;
  };
  /// Applies norms to queries and keys, turns them by their positions, and
  /// writes keys and values into the pages.
  void keep(
      std::span<const RowPlace> rows,
      const RowHeads& heads,
      float* columns,
      const CacheLayer& cache,
      const HeadChanges& changes) const;
  /// Attention of the queries to the pages. A group's queries begin
  /// `group_step` after those of the group before.
  struct Attention {
    std::span<const RowPlace> rows;
    RowHeads heads;
    const float* queries = nullptr;
    std::int64_t row_step = 0;
    std::int64_t group_step = 0;
    CacheLayer cache;
    const RelativeTable* relative = nullptr; ///< may be null
    float* result = nullptr;                 ///< [rows, all queries]
  };
  void attend(const Attention& attention) const;
  /// Computes up and gate, and the activation of each output by the thread that
  /// computed it. The result is in `gate`, or in `up` where there is no gate.
  void activate_mlp(
      const MlpWeights& mlp,
      const float* x,
      std::int64_t rows,
      float* up,
      float* gate) const;

 private:
  /// Writes the norm of `size` numbers.
  void normalize_one(
      const NormWeights& norm,
      const float* x,
      std::int64_t size,
      float* y) const;

  model::ModelDescription model_;
  float scale_; ///< of scores
  const kernels::cpu::DecoderTable& kernels_;
};

/// Makes room for rows. What is there stays only if there was room.
void make_rows(
    std::vector<float>& values,
    std::size_t rows,
    std::int64_t columns);

/// Writes the vectors of words as fp32: those of the `table`, whose first row
/// is word `first`, and zeros for others.
void embed_words(
    std::span<const std::int64_t> words,
    const at::Tensor& table,
    std::int64_t first,
    float* x);

} // namespace cairn::generate
