#pragma once

#include "kernels/cuda/fast_math.cuh"
#include "kernels/cuda/lane.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/tensor_core.cuh"
#include "kernels/formulas/dropout_bits.h"
#include "kernels/formulas/philox_rounds.h"
#include "kernels/internal/cuda/attention.h"

#include <cuda_pipeline.h>

#include <cmath>
#include <cstdint>

// What the kernels of attention share. A block of threads has a block of
// queries (or of keys) and goes over tiles of keys (or of queries) that come
// to shared memory while the tile before is used. Products are those of warps,
// see tensor_core.cuh, whose `g` and `t` are used here.
//
// Heads are made longer with zeros to `size` elements, 64 or 128.

namespace cairn::kernels::cuda::attention {

constexpr int warp = 32;
constexpr int tile = 64;   ///< keys or queries that come at once
constexpr int matrix = 16; ///< rows of a warp's product
constexpr float ln_of_2 = 0.693147181F;

/// Variants of the kernels, by what changes the scores beside `causal`. Only
/// the placed scores have a variant without dropout: in other cases without
/// dropout, cuDNN's attention runs instead of these kernels.
enum class Form {
  plain,
  placed,          ///< PlacedScores
  placed_dropping, ///< the same with dropout
  masked,          ///< a mask or documents
};

constexpr bool is_placed(Form form) {
  return form == Form::placed || form == Form::placed_dropping;
}

struct Lanes {
  int number;
  int g;
  int t;
};

__device__ inline Lanes lanes() {
  const int number = static_cast<int>(threadIdx.x) % warp;
  return {number, number / 4, number % 4};
}

// Pieces of 8 elements of a row lie in an order that depends on the row, so
// that the 8 rows that are read at once lie in different banks of memory.

/// Rows in the order of the tokens.
struct InOrder {
  /// The row of a tile that is row `n` of matrix `half` of pair `pair` of
  /// matrices with 8 rows.
  static __device__ int row(int pair, int half, int n) {
    return 16 * pair + 8 * half + n;
  }
  static __device__ int bank(int row) { return row & 7; }
};

/// Rows of keys such that a thread has, in every four matrices in a row, 8
/// scores with keys in a row: those that one random draw is for.
struct ByDraws {
  static __device__ int row(int pair, int half, int n) {
    return 32 * (pair / 2) + 8 * (n / 2) + 2 * (2 * (pair % 2) + half) + n % 2;
  }
  static __device__ int bank(int row) {
    return (row & 1) | (row >> 3 & 3) << 1;
  }
};

/// Rows of one head in memory.
struct HeadRows {
  const std::uint16_t* data;
  std::int64_t step; ///< from one token to the next
  int tokens;
  int pieces; ///< of 8 elements that a row has
};

__device__ inline HeadRows rows_of(
    const Heads& heads,
    std::int64_t batch,
    std::int64_t head,
    std::int64_t tokens,
    std::int64_t size) {
  return {
      static_cast<const std::uint16_t*>(heads.data) + batch * heads.batch_step +
          head * heads.head_step,
      heads.token_step,
      static_cast<int>(tokens),
      static_cast<int>(size / 8)};
}

/// Starts copies of the rows from `first` on. Rows and pieces that there are
/// not become zeros.
template <class Order, int rows, int size, int threads>
__device__ void copy_rows(const HeadRows& from, int first, uint4* to) {
  constexpr int pieces = size / 8;
  constexpr int at_once = threads / pieces; // a multiple of 8 rows
  const int own_row = static_cast<int>(threadIdx.x) / pieces;
  const int piece = static_cast<int>(threadIdx.x) % pieces;
  const int token = first + own_row;
  const std::uint16_t* source = from.data + token * from.step + piece * 8;
  const int place = own_row * pieces + (piece ^ Order::bank(own_row));
  const unsigned tokens = piece < from.pieces ? from.tokens : 0;
#pragma unroll
  for (int row = 0; row < rows; row += at_once) {
    copy_or_clear(
        to + (place ^ Order::bank(row)) + row * pieces,
        source,
        static_cast<unsigned>(token + row) < tokens);
    source += at_once * from.step;
  }
}

/// Matrices of 16 x 16 that lie beside each other, as a product takes them
/// first.
template <int size>
using Left = std::uint32_t[size / matrix][4];

/// Loads 16 rows; `row` is this lane's own row of a tile in order: lanes 0 to
/// 15 have the 16 rows.
template <int size>
__device__ void load_left(Left<size>& left, const uint4* tile_rows, int row) {
  const int half = lanes().number / 16;
#pragma unroll
  for (int k = 0; k < size / matrix; ++k) {
    load_matrices(
        left[k],
        tile_rows + row * (size / 8) + ((2 * k + half) ^ InOrder::bank(row)));
  }
}

/// Computes, for all of `tiles` matrices with 16 rows, the products with the
/// transposed rows of a tile: pairs `first_pair`, which is even, to
/// `first_pair + pairs - 1`.
template <Element element, class Order, int size, int tiles, int pairs>
__device__ void multiply_scores(
    float (&sums)[tiles][2 * pairs][4],
    const Left<size> (&left)[tiles],
    const uint4* tile_rows,
    int first_pair) {
  const int lane = lanes().number;
  const int n = lane % 8;
  const int place =
      Order::row(first_pair, lane / 16, n) * (size / 8) + (lane / 8 % 2 ^ n);
#pragma unroll
  for (int k = 0; k < size / matrix; ++k) {
#pragma unroll
    for (int pair = 0; pair < pairs; ++pair) {
      std::uint32_t right[4];
      load_matrices(
          right,
          tile_rows + (place ^ 2 * k) + Order::row(pair, 0, 0) * (size / 8));
#pragma unroll
      for (int m = 0; m < tiles; ++m) {
        if (k == 0) {
          multiply<element>(sums[m][2 * pair], left[m][k], right[0], right[1]);
          multiply<element>(
              sums[m][2 * pair + 1],
              left[m][k],
              right[2],
              right[3]);
        } else {
          multiply_add<element>(
              sums[m][2 * pair],
              left[m][k],
              right[0],
              right[1]);
          multiply_add<element>(
              sums[m][2 * pair + 1],
              left[m][k],
              right[2],
              right[3]);
        }
      }
    }
  }
}

/// Adds the products of weights, whose columns are the rows of a pair, with
/// these rows.
template <Element element, class Order, int size, int tiles>
__device__ void add_weighted(
    float (&sums)[tiles][size / 8][4],
    const std::uint32_t (&weights)[tiles][4],
    const uint4* tile_rows,
    int pair) {
  const int lane = lanes().number;
  const int n = lane % 8;
  const int place =
      Order::row(0, lane / 8 % 2, n) * (size / 8) + (lane / 16 ^ n);
#pragma unroll
  for (int k = 0; k < size / matrix; ++k) {
    std::uint32_t right[4];
    load_transposed(
        right,
        tile_rows + (place ^ 2 * k) + Order::row(pair, 0, 0) * (size / 8));
#pragma unroll
    for (int m = 0; m < tiles; ++m) {
      multiply_add<element>(sums[m][2 * k], weights[m], right[0], right[1]);
      multiply_add<element>(sums[m][2 * k + 1], weights[m], right[2], right[3]);
    }
  }
}

/// Two sums of products beside each other, as a product takes them first.
template <Element element>
__device__ void to_left(
    std::uint32_t (&left)[4],
    const float (&first)[4],
    const float (&second)[4]) {
  left[0] = to_bit_pair(first[0], first[1], element);
  left[1] = to_bit_pair(first[2], first[3], element);
  left[2] = to_bit_pair(second[0], second[1], element);
  left[3] = to_bit_pair(second[2], second[3], element);
}

template <int a, int b, int c>
__device__ void clear(float (&x)[a][b][c]) {
#pragma unroll
  for (int i = 0; i < a; ++i) {
#pragma unroll
    for (int j = 0; j < b; ++j) {
#pragma unroll
      for (int k = 0; k < c; ++k) {
        x[i][j][k] = 0;
      }
    }
  }
}

/// Four lanes, which differ in the two bits of `low` and `high`, have four
/// words each. Lane i gets word i of all of them.
__device__ inline void exchange_words(
    std::uint32_t (&words)[4],
    int low,
    int high) {
  const int lane = lanes().number;
  const bool is_high = (lane & high) != 0;
  const bool is_low = (lane & low) != 0;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const std::uint32_t other =
        __shfl_xor_sync(0xffffffffU, is_high ? words[i] : words[i + 2], high);
    words[i] = is_high ? other : words[i];
    words[i + 2] = is_high ? words[i + 2] : other;
  }
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const std::uint32_t other =
        __shfl_xor_sync(0xffffffffU, is_low ? words[i] : words[i + 1], low);
    words[i] = is_low ? other : words[i];
    words[i + 1] = is_low ? words[i + 1] : other;
  }
}

/// Writes the row of one thread's g: two of its four lanes' columns in each of
/// the matrices with 8 columns.
template <Element element, int size>
__device__ void store_row(
    const float (&sums)[size / 8][4],
    int half,
    float factor,
    std::uint16_t* row,
    bool exists,
    int pieces) {
#pragma unroll
  for (int k = 0; k < size / 8; k += 4) {
    std::uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      words[i] = to_bit_pair(
          sums[k + i][2 * half] * factor,
          sums[k + i][2 * half + 1] * factor,
          element);
    }
    exchange_words(words, 1, 2);
    const int piece = k + lanes().t;
    if (exists && piece < pieces) {
      reinterpret_cast<uint4*>(
          row)[piece] = {words[0], words[1], words[2], words[3]};
    }
  }
}

__device__ inline std::uint16_t* row_of(
    const HeadsTarget& heads,
    std::int64_t batch,
    std::int64_t head,
    std::int64_t token) {
  return static_cast<std::uint16_t*>(heads.data) + batch * heads.batch_step +
      head * heads.head_step + token * heads.token_step;
}

/// PlacedScores of a tile of queries and a tile of keys.
struct PlacedTile {
  float by_distance[2 * tile]; ///< number key - query + tile - 1 of both tiles
  float by_key[tile];
};

/// Memory for two of them; none for other forms.
template <Form form>
constexpr std::size_t bytes_of_placed = is_placed(form) ? 2 * sizeof(PlacedTile)
                                                        : 0;

/// Starts copies of what is there of a tile.
template <int threads>
__device__ void copy_placed(
    const Attention& x,
    std::int64_t batch,
    std::int64_t head,
    int first_query,
    int first_key,
    PlacedTile& to) {
  const std::int64_t distances = x.queries + x.keys - 1;
  const std::int64_t first = first_key - first_query + x.queries - tile;
  const float* const by_distance = x.placed.by_distance;
  const float* const by_key = x.placed.by_key;
  for (int i = static_cast<int>(threadIdx.x); i < 2 * tile; i += threads) {
    const std::int64_t distance = first + i;
    copy_or_clear(
        to.by_distance + i,
        by_distance + head * distances + distance,
        by_distance != nullptr && distance >= 0 && distance < distances);
    const int key = first_key + i;
    if (i < tile) {
      copy_or_clear(
          to.by_key + i,
          by_key + batch * x.keys + key,
          by_key != nullptr && key >= 0 && key < x.keys);
    }
  }
}

/// Turns scores into exponents of 2, with what is added to them. `query(m, i)`
/// and `key(m, n, i)` number those of a score in their tiles.
template <int tiles, int columns, class Query, class Key>
__device__ void add_placed(
    float (&scores)[tiles][columns][4],
    float scale,
    const PlacedTile& placed,
    const Query& query,
    const Key& key) {
#pragma unroll
  for (int m = 0; m < tiles; ++m) {
#pragma unroll
    for (int n = 0; n < columns; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int k = key(m, n, i);
        const float added = placed.by_distance[k - query(m, n, i) + tile - 1] +
            placed.by_key[k];
        scores[m][n][i] = (scores[m][n][i] * scale + added) * log2_of_e;
      }
    }
  }
}

/// Combines values of the four lanes with the same g.
template <class Combine>
__device__ float over_row(float own, const Combine& combine) {
  own = combine(own, __shfl_xor_sync(0xffffffffU, own, 1));
  return combine(own, __shfl_xor_sync(0xffffffffU, own, 2));
}

/// The scores of one head. Queries and keys are numbered from the first of
/// these on.
template <Form form>
class HeadScores {
 public:
  __device__ HeadScores(
      const Attention& x,
      std::int64_t batch,
      std::int64_t head)
      : x_(x),
        batch_(batch),
        head_(head),
        keys_(static_cast<int>(x.keys)),
        ahead_(static_cast<int>(x.first_query - x.first_key)) {}

  /// Factor from scores to exponents of 2. Where numbers are added to scores,
  /// these have it already.
  __device__ float factor() const {
    const bool has_it = is_placed(form) ||
        (form == Form::masked && x_.mask.kind == ScoreMask::Kind::added);
    return has_it ? 1 : x_.scale * log2_of_e;
  }

  /// The last key that may be seen.
  __device__ int last_key(int query) const {
    return x_.causal && query + ahead_ < keys_ - 1 ? query + ahead_ : keys_ - 1;
  }

  /// The first query that may see a key.
  __device__ int first_query(int key) const {
    return x_.causal && key > ahead_ ? key - ahead_ : 0;
  }

  /// True when queries from `query` on may see all of these keys.
  __device__ bool sees_all(int query, int first, int last) const {
    return first >= 0 && last <= last_key(query);
  }

  /// A score, or minus infinity where the query cannot see the key.
  __device__ float in_range(float score, int query, int key) const {
    return key >= 0 && key <= last_key(query) ? score : -INFINITY;
  }

  /// A score with what is added to it, or minus infinity where the mask or the
  /// documents hide the key.
  __device__ float masked(float score, int query, int key) const {
    if (query >= x_.queries || key < 0 || key >= keys_) {
      return score;
    }
    if (x_.query_documents != nullptr &&
        x_.query_documents[batch_ * x_.queries + query] !=
            x_.key_documents[batch_ * x_.keys + key]) {
      return -INFINITY;
    }
    const ScoreMask& mask = x_.mask;
    const std::int64_t i = batch_ * mask.batch_step + head_ * mask.head_step +
        query * mask.query_step + key * mask.key_step;
    if (mask.kind == ScoreMask::Kind::visible) {
      return static_cast<const std::uint8_t*>(mask.data)[i] != 0 ? score
                                                                 : -INFINITY;
    }
    if (mask.kind == ScoreMask::Kind::added) {
      Lane added[1];
      load(mask.data, mask.element, i, added);
      return (score * x_.scale + added[0].value) * log2_of_e;
    }
    return score;
  }

  /// Hides what queries do not see. `query(m, n, i)` and `key(m, n, i)` are
  /// those of score [m][n][i]; `all` says that these may see all of the keys.
  template <int tiles, int columns, class Query, class Key>
  __device__ void hide(
      float (&scores)[tiles][columns][4],
      bool all,
      const Query& query,
      const Key& key) const {
    const auto change = [&](const auto& how) {
#pragma unroll
      for (int m = 0; m < tiles; ++m) {
#pragma unroll
        for (int n = 0; n < columns; ++n) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            scores[m][n][i] =
                how(scores[m][n][i], query(m, n, i), key(m, n, i));
          }
        }
      }
    };
    if constexpr (form == Form::masked) {
      change([&](float score, int q, int k) { return masked(score, q, k); });
    }
    if (!all) {
      change([&](float score, int q, int k) { return in_range(score, q, k); });
    }
  }

 private:
  const Attention& x_;
  std::int64_t batch_;
  std::int64_t head_;
  int keys_;
  int ahead_; ///< of the first query before the first key
};

/// The random numbers of one head's weights. Not `dropping`: nothing is drawn,
/// and all weights stay.
template <bool dropping>
struct HeadDraws {
  const PhiloxRounds& rounds;
  std::uint64_t counter_high; ///< the sample and the head
  std::uint32_t bound;        ///< of 16 bits in the upper half of a word

  __device__ HeadDraws(
      const WeightDropout& dropout,
      const PhiloxRounds& rounds_of_key,
      std::int64_t batch,
      std::int64_t head)
      : rounds(rounds_of_key),
        counter_high(
            counter_at(
                dropout.samples == nullptr ? 0 : dropout.samples[batch],
                static_cast<std::uint64_t>(dropout.first_head + head),
                0)
                .high),
        // Where all are dropped, the scale is 0 and what is kept is nothing.
        bound(
            dropout.threshold > 0xffffU ? 0xffffffffU
                                        : dropout.threshold << 16U) {}

  __device__ Philox4x32 of(std::int64_t query, std::uint32_t eight) const {
    if constexpr (dropping) {
      return rounds.at(counter_at(0, 0, query).low | eight, counter_high);
    } else {
      return {};
    }
  }

  /// Whether the weight of a word's lower or upper 16 bits stays.
  __device__ bool keeps_low(std::uint32_t word) const {
    return !dropping || word << 16U >= bound;
  }
  __device__ bool keeps_high(std::uint32_t word) const {
    return !dropping || word >= bound;
  }
};

/// Logarithm of a sum as an exponent of 2; finite, so that hidden scores have
/// no weight.
__device__ inline float exponent_of(float log_sum) {
  return log_sum == -INFINITY ? 0 : log_sum * log2_of_e;
}

/// The first key of the first tile, which is where a random draw begins: up to
/// 7 keys before those that there are.
__device__ inline int first_of_tiles(const Attention& x) {
  return -static_cast<int>(x.first_key % columns_of_a_draw);
}

/// Number of tiles from `first` to `last`.
__device__ inline int tiles_between(int first, int last) {
  return last < first ? 0 : (last - first) / tile + 1;
}

/// Number of a key's random draw, whose place in the tile is a multiple of 8.
__device__ inline std::uint32_t eight_of(const Attention& x, int key) {
  return static_cast<std::uint32_t>(x.first_key + key) / columns_of_a_draw;
}

/// Lets a kernel have the shared memory that it needs, and starts it.
template <class... Parameters, class... Arguments>
const char* launch_large(
    void (*kernel)(Parameters...),
    const Grid& grid,
    void* stream,
    const Arguments&... arguments) {
  cudaFuncSetAttribute(
      kernel,
      cudaFuncAttributeMaxDynamicSharedMemorySize,
      static_cast<int>(grid.shared_bytes));
  return launch(kernel, grid, stream, arguments...);
}

/// Calls `start` with the element type, the padded size and the form as
/// constants of the compiler's.
template <class Start>
const char* with_form(const Attention& x, const Start& start) {
  using Half = std::integral_constant<Element, Element::fp16>;
  using Brain = std::integral_constant<Element, Element::bf16>;
  const auto with_masks = [&](auto element, auto size) {
    if (x.mask.kind != ScoreMask::Kind::none || x.query_documents != nullptr) {
      return start(element, size, std::integral_constant<Form, Form::masked>());
    }
    if (x.placed.by_distance != nullptr || x.placed.by_key != nullptr) {
      return x.dropout.threshold == 0
          ? start(element, size, std::integral_constant<Form, Form::placed>())
          : start(
                element,
                size,
                std::integral_constant<Form, Form::placed_dropping>());
    }
    return start(element, size, std::integral_constant<Form, Form::plain>());
  };
  const auto with_size = [&](auto element) {
    return x.size <= 64
        ? with_masks(element, std::integral_constant<int, 64>())
        : with_masks(element, std::integral_constant<int, 128>());
  };
  return x.element == Element::bf16 ? with_size(Brain()) : with_size(Half());
}

constexpr unsigned blocks_for(
    std::int64_t planes,
    std::int64_t rows,
    int each) {
  return static_cast<unsigned>(planes * ((rows + each - 1) / each));
}

} // namespace cairn::kernels::cuda::attention
