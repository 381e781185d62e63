#pragma once

#include "kernels/internal/cuda/join_heads.h"

#include <cairn/kernels/stretch.h>

#include <cstdint>

namespace cairn::kernels::cuda {

// Attention of 16 bits whose weights are never written to memory, and are
// dropped as on the CPU. See cuda.h for what pointers, streams and results are.

/// A tensor [batch, tokens, heads, size] that a kernel writes; see Heads.
struct HeadsTarget {
  void* data = nullptr;
  std::int64_t batch_step = 0;
  std::int64_t token_step = 0;
  std::int64_t head_step = 0;
};

/// What is known of each pair of a query and a key. Steps are from one index to
/// the next, in elements; a step of 0 repeats the same element.
struct ScoreMask {
  enum class Kind {
    none,
    visible, ///< bytes: other than 0 where a query sees a key
    added,   ///< numbers of type `element` that are added to the scores
  };
  Kind kind = Kind::none;
  const void* data = nullptr;
  Element element = Element::fp32;
  std::int64_t batch_step = 0;
  std::int64_t head_step = 0;
  std::int64_t query_step = 0;
  std::int64_t key_step = 0;
};

/// What is added to scores by the places of queries and keys alone. Not beside
/// a ScoreMask or documents.
struct PlacedScores {
  /// [heads, queries + keys - 1]: the one of query q and key k is number
  /// k - q + queries - 1. Null: none.
  const float* by_distance = nullptr;
  /// [batch, keys]; minus infinity hides a key. Null: none.
  const float* by_key = nullptr;
};

/// Which weights are dropped: see DropoutRows, whose rows are queries and whose
/// columns are keys.
struct WeightDropout {
  /// Numbers of the samples, [batch]. Null: all are 0.
  const std::int64_t* samples = nullptr;
  std::int64_t first_head = 0;
  std::uint64_t key = 0;
  std::uint32_t threshold = 0; ///< 0: nothing is dropped
  float scale = 1;             ///< of the weights that stay
};

/// Attention of a part of the queries to a part of the keys.
struct Attention {
  std::int64_t batch = 0;
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  std::int64_t heads = 0;
  /// Heads of keys and values, a divisor of `heads`. Each serves as many heads
  /// of queries in a row.
  std::int64_t groups = 0;
  std::int64_t size = 0; ///< of a head
  Element element = Element::bf16;
  float scale = 1; ///< of the scores, above 0
  /// Positions of the first query and the first key in their sequences. They
  /// count for `causal` and for dropout.
  std::int64_t first_query = 0;
  std::int64_t first_key = 0;
  bool causal = false; ///< queries see keys at positions up to their own
  ScoreMask mask{};
  PlacedScores placed{};
  /// Numbers of the documents that tokens belong to, [batch, queries] and
  /// [batch, keys]: queries see the keys of their own document. Null: all.
  const std::int32_t* query_documents = nullptr;
  const std::int32_t* key_documents = nullptr;
  WeightDropout dropout{};
};

/// True when the functions below take these: heads of 8 to 128 elements, eight
/// of which lie together at multiples of 16 bytes.
bool can_attend(const Attention& attention, const HeadsOfAll& heads);

/// Writes attention, and the logarithms of the sums of the exponentials of
/// scores, [batch, heads, queries]. Queries that see no key get zeros and minus
/// infinity.
[[nodiscard]] const char* attend(
    const Attention& attention,
    const HeadsOfAll& heads,
    const HeadsTarget& output,
    float* log_sum,
    void* stream);

/// What the gradients of attention are computed from. Where the keys are a
/// part, `output` and `log_sum` are those of attention to all keys.
struct AttentionResult {
  Heads output;
  Heads gradient; ///< of the output
  const float* log_sum = nullptr;
};

/// Groups of queries that sum up the gradient of PlacedScores::by_distance on
/// their own.
std::int64_t distance_parts(const Attention& attention);

struct AttentionGradientTargets {
  HeadsTarget query;
  HeadsTarget key;
  HeadsTarget value;
  /// Gradient of the numbers that are added to scores, [batch, heads, queries,
  /// keys] without gaps, with the type of the queries. Null: it is not wanted.
  /// Must be zeros: those of keys that are behind all queries are not written.
  void* added = nullptr;
  /// Gradient of PlacedScores::by_distance in parts, [distance_parts(), heads,
  /// queries + keys - 1]. Null: it is not wanted.
  float* by_distance = nullptr;
};

/// Writes the gradients of queries, keys and values. The order of all sums is
/// fixed. `of_rows` is memory for [batch, heads, queries, 2], at a multiple of
/// 8 bytes.
[[nodiscard]] const char* attend_backward(
    const Attention& attention,
    const HeadsOfAll& heads,
    const AttentionResult& result,
    float* of_rows,
    const AttentionGradientTargets& gradients,
    void* stream);

} // namespace cairn::kernels::cuda
