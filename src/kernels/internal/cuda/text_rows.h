#pragma once

#include <cairn/kernels/stretch.h>

#include <cstdint>

namespace cairn::kernels::cuda {

// The parts of a model that writes texts, besides its products and attention.
// A row is a token of a text. See cuda.h for what pointers, streams and results
// are.
//
// Kernels that have an argument of type Start read weights, or keys and values
// of earlier passes, before the kernels ahead of them have ended.

/// When a kernel may begin: when the work before it has ended, or at once, so
/// that it waits for that work itself. The latter needs Hopper.
enum class Start : std::uint8_t { after, early };

enum class Activation : std::uint8_t {
  none,
  gelu,
  gelu_tanh,
  relu,
  silu,
  squared_relu
};

/// The place of keys and values: pages of `page_tokens` tokens. A head of a
/// layer has its keys and its values in turn, [page_tokens, row] each.
struct KeptPages {
  void* data = nullptr; ///< of the first page, at a multiple of 16 bytes
  Element element = Element::bf16;
  std::int64_t page_step = 0; ///< elements from one page to the next
  std::int64_t keys_at = 0;   ///< of the layer's first head in a page
  std::int64_t values_at = 0;
  std::int64_t head_step = 0; ///< from one head to the next
  int page_tokens = 0;
  int row = 0; ///< elements of a token's head: its size, rounded up to eights
  const std::int32_t* table = nullptr; ///< [texts, width]: pages of each text
  int width = 0;
};

/// The rows of a pass: each is a token of the text at a place.
struct TextRows {
  std::int64_t count = 0;
  const std::int32_t* tokens = nullptr;
  const std::int32_t* places = nullptr;
  const std::int32_t* positions = nullptr;
  /// The rows of the tables of angles; null: they are the positions.
  const std::int32_t* angles = nullptr;
};

/// Heads of one row: `groups` groups of query heads, of which each shares a
/// head of keys and values.
struct TextHeads {
  int groups = 0;
  int queries = 0; ///< of each group
  int size = 0;
  /// Tables [angles, size / 2] of rotary positions; null: nothing is turned.
  const float* cosine = nullptr;
  const float* sine = nullptr;
};

/// y = words[token] + positions[position + offset], which may be null.
struct EmbeddedRows {
  std::int64_t columns = 0;
  Element element = Element::bf16; ///< of all
  const void* words = nullptr;
  const void* positions = nullptr;
  std::int64_t offset = 0;
  void* y = nullptr;
};
[[nodiscard]] const char* embed(
    const TextRows& rows,
    const EmbeddedRows& embedded,
    void* stream);

/// LayerNorm, or RMSNorm. No gamma: there is no norm.
struct TextNorm {
  const void* gamma = nullptr;
  const void* beta = nullptr; ///< may be null
  bool centred = true;        ///< LayerNorm
  float epsilon = 1e-5F;
};

/// Row i of y is the norm of row which[i] of x; of row i if `which` is null.
struct NormalizedRows {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  Element element = Element::bf16;
  const void* x = nullptr;
  const std::int32_t* which = nullptr;
  void* y = nullptr;
};
[[nodiscard]] const char* normalize(
    const NormalizedRows& rows,
    const TextNorm& norm,
    Start start,
    void* stream);

/// Turns x into activation(x), or activation(x) * factor where that is not
/// null.
[[nodiscard]] const char* activate(
    Activation activation,
    Element element,
    std::int64_t count,
    void* x,
    const void* factor,
    void* stream);

/// Splits rows [count, groups, queries + 2, size] into queries [count, groups *
/// queries, size] and keys and values [count, groups, size], queries and keys
/// turned, and writes keys and values to their pages too. With null in place of
/// all three, the pages alone are written.
struct SplitRows {
  Element element = Element::bf16; ///< also that of the pages
  const void* projected = nullptr;
  void* query = nullptr;
  void* key = nullptr;
  void* value = nullptr;
};
[[nodiscard]] const char* split_and_keep(
    const TextRows& rows,
    const TextHeads& heads,
    const KeptPages& pages,
    const SplitRows& split,
    void* stream);

/// Copies the first `tokens` keys and values of the text at a place from its
/// pages to tensors [tokens, groups, size].
[[nodiscard]] const char* read_pages(
    const KeptPages& pages,
    std::int64_t place,
    std::int64_t tokens,
    const TextHeads& heads,
    void* key,
    void* value,
    void* stream);

/// What is known of a row of scores without reading it as a whole.
struct ScorePeak {
  float highest = 0; ///< NaN if a score is NaN or infinite
  /// The logarithm of the sum of the exponentials of all scores.
  float log_sum = 0;
  std::int32_t column = 0; ///< the first one with the highest score
};

/// Finds the peaks of rows of scores, in float. `limits` are, for each row, the
/// number of first columns that count for its highest score.
struct ScoredRows {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t step = 0; ///< from one row to the next
  const float* scores = nullptr;
  const std::int32_t* limits = nullptr;
};
[[nodiscard]] const char* find_peaks(
    const ScoredRows& rows,
    ScorePeak* peaks,
    Start start,
    void* stream);

} // namespace cairn::kernels::cuda
