#pragma once

#include <cstdint>
#include <vector>

// Kernels that compute the tokens of texts, on the calling thread. Every result
// belongs to one row, and is the sum of the same numbers in the same order
// however many rows are computed together: sums run over sixteen lanes, element
// i going to lane i % 16, for any width of vector. So all instruction sets give
// the same bits, too.

namespace cairn::kernels::cpu {

enum class WeightNumbers { fp32, bf16, int8 };

/// The weight of a linear layer, [outputs, inputs].
struct WeightMatrix {
  const void* data = nullptr;
  WeightNumbers numbers = WeightNumbers::fp32;
  const float* factors = nullptr; ///< int8: of each output
  std::int64_t inputs = 0;
};

/// y[row][output] = bias[output] + x[row] * weight[output], for the outputs
/// from `begin` to `end`. With `adds` the result is added to y.
struct RowProduct {
  const float* x = nullptr;
  std::int64_t x_step = 0; ///< from one row to the next
  std::int64_t rows = 0;
  WeightMatrix weight{};
  const float* bias = nullptr; ///< may be null
  float* y = nullptr;
  std::int64_t y_step = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool adds = false;
};

enum class RowNorm { layer_norm, rms_norm };

/// The norm of one row.
struct RowNormalization {
  RowNorm kind = RowNorm::layer_norm;
  const float* x = nullptr;
  std::int64_t size = 0;
  const float* weight = nullptr;
  const float* bias = nullptr; ///< may be null
  float epsilon = 0;
  float* y = nullptr;
};

enum class RowActivation { gelu, gelu_tanh, relu, silu, squared_relu };

/// The attention of one token in the query heads that share a head of keys and
/// values.
///
/// Keys and values lie in pages of `page_tokens` tokens. In a page the keys of
/// the head begin at `keys_at`, [head_size][page_tokens], and its values at
/// `values_at`, [page_tokens][head_size].
struct PagedAttention {
  const float* query = nullptr; ///< [heads][head_size]
  std::int64_t heads = 0;
  std::int64_t head_size = 0;
  float scale = 1;
  const float* const* pages = nullptr;
  std::int64_t page_tokens = 0;
  std::int64_t keys_at = 0;
  std::int64_t values_at = 0;
  std::int64_t length = 0; ///< tokens that are seen
  /// Added to the scores of the first head, one number for each token; null:
  /// nothing. Those of the next head are `bias_step` further.
  const float* bias = nullptr;
  std::int64_t bias_step = 0;
  float* scores = nullptr; ///< scratch memory, as long as all pages
  float* result = nullptr; ///< [heads][head_size]
};

/// The kernels, compiled for one instruction set.
struct DecoderTable {
  const char* name;
  void (*multiply)(const RowProduct&);
  void (*normalize)(const RowNormalization&);
  /// Activates `count` numbers in place, and multiplies each by its number in
  /// `factors` where that is not null.
  void (*activate)(
      RowActivation,
      float* values,
      const float* factors,
      std::int64_t count);
  void (*attend)(const PagedAttention&);
};

// Each table has its own file; only those of this architecture exist.
extern const DecoderTable portable_decoder_table;
extern const DecoderTable neon_decoder_table;
extern const DecoderTable avx2_decoder_table;
extern const DecoderTable avx512_decoder_table;

/// The tables that this machine can run, the fastest last.
std::vector<const DecoderTable*> runnable_decoder_tables();

/// The fastest table that this machine can run.
const DecoderTable& decoder_table();

} // namespace cairn::kernels::cpu
