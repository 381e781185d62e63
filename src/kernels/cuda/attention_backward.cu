#include "kernels/cuda/attention.cuh"

// Two kernels, which both compute the weights again: one has a block of queries
// and adds up their gradient over the keys; one has a block of keys and adds up
// the gradients of keys and values over the queries. Every sum has one thread
// and one order.

namespace cairn::kernels::cuda {
namespace attention {
namespace {

constexpr int warps = 4;
constexpr int threads = warps * warp;
constexpr int tiles = 1; ///< matrices of 16 queries or keys that a warp has
constexpr int rows = warps * tiles * matrix; ///< of a block

/// Blocks that a multiprocessor shall run at once, which bounds registers.
template <int size>
constexpr int blocks_at_once_of = size == 64 ? 3 : 2;

/// Parts of a tile that are computed in a row without a loop.
template <int size>
constexpr int parts_at_once = size == 64 ? 2 : 1;

/// The block's own rows come first; the tiles come to the same memory.
template <int size>
constexpr std::size_t bytes_of_rows(int count) {
  return static_cast<std::size_t>(count) * size * sizeof(std::uint16_t);
}

constexpr std::size_t larger(std::size_t a, std::size_t b) {
  return a > b ? a : b;
}

static_assert(rows == tile); // PlacedTile, DistanceSums

/// Sums of a block of queries over pairs of a query and a key with the same
/// distance. The gradients of a tile's scores are written so that each distance
/// has a column; a thread then sums a column. From one tile of keys to the next
/// the distances of the upper half of the columns become those of the lower.
class DistanceSums {
 public:
  struct Memory {
    float gradients[tile][2 * tile]; ///< of query and distance
    float upper[tile];               ///< sums of the tile before
  };

  /// `sums` is the block's own row, of all distances; null: nothing is summed.
  /// `first` is the number of the first column's distance in the first tile.
  __device__ DistanceSums(
      Memory& memory,
      float* sums,
      std::int64_t distances,
      std::int64_t first)
      : memory_(memory), sums_(sums), distances_(distances), column_(first) {
    if (sums_ == nullptr) {
      return;
    }
    column_ += threadIdx.x;
    float* const all = &memory_.gradients[0][0];
    for (int i = static_cast<int>(threadIdx.x); i < tile * 2 * tile;
         i += threads) {
      all[i] = 0;
    }
    for (int i = static_cast<int>(threadIdx.x); i < tile; i += threads) {
      memory_.upper[i] = 0;
    }
    // Distances before those of the first tile.
    for (std::int64_t i = threadIdx.x; i < first && i < distances_;
         i += threads) {
      sums_[i] = 0;
    }
  }

  __device__ bool wanted() const { return sums_ != nullptr; }

  /// Sets the gradient of a query's and a key's score, by their numbers in the
  /// tiles.
  __device__ void set(int query, int key, float gradient) const {
    memory_.gradients[query][key - query + tile - 1] = gradient;
  }

  /// Between barriers: all gradients of a tile are set.
  __device__ void sum_tile() {
    const int column = static_cast<int>(threadIdx.x);
    const int begin = column < tile ? tile - 1 - column : 0;
    const int end = min(tile, 2 * tile - 1 - column);
    float sum = column < tile ? memory_.upper[column] : 0;
    for (int query = begin; query < end; ++query) {
      sum += memory_.gradients[query][column];
    }
    if (column < tile) {
      store(sum);
    }
    __syncthreads(); // the sums of before are read
    if (column >= tile) {
      memory_.upper[column - tile] = sum;
    }
    column_ += tile;
  }

  /// After the last tile: writes what is left.
  __device__ void finish() {
    __syncthreads();
    if (threadIdx.x < tile) {
      store(memory_.upper[threadIdx.x]);
    }
    for (std::int64_t i = column_ + tile; i < distances_; i += threads) {
      if (i >= 0) {
        sums_[i] = 0;
      }
    }
  }

 private:
  __device__ void store(float sum) const {
    if (column_ >= 0 && column_ < distances_) {
      sums_[column_] = sum;
    }
  }

  Memory& memory_;
  float* sums_;
  std::int64_t distances_;
  std::int64_t column_; ///< the distance of this thread's column
};

/// Tiles of keys and of values, twice; or queries, outputs and gradients.
template <int size>
constexpr std::size_t bytes_of_query_tiles =
    larger(bytes_of_rows<size>(3 * rows), bytes_of_rows<size>(4 * tile));

template <int size, Form form>
constexpr std::size_t shared_bytes_of_queries = bytes_of_query_tiles<size> +
    bytes_of_placed<form> +
    (is_placed(form) ? sizeof(DistanceSums::Memory) : 0);

/// Tiles of queries and gradients, with two floats for each query, twice; or
/// keys and values.
template <int size>
constexpr std::size_t bytes_of_key_tiles = larger(
    bytes_of_rows<size>(2 * rows),
    bytes_of_rows<size>(4 * tile) + 4 * tile * sizeof(float));

template <int size, Form form>
constexpr std::size_t shared_bytes_of_keys =
    bytes_of_key_tiles<size> + bytes_of_placed<form>;

/// The scalar product of pairs of 16-bit numbers.
template <Element element>
__device__ float product_of_pairs(std::uint32_t a, std::uint32_t b) {
  const auto low = [](std::uint32_t pair) {
    return from_bits(static_cast<std::uint16_t>(pair), element);
  };
  const auto high = [](std::uint32_t pair) {
    return from_bits(static_cast<std::uint16_t>(pair >> 16U), element);
  };
  return low(a) * low(b) + high(a) * high(b);
}

/// One over the factor of weights that stay; 0 where none does.
__device__ inline float inverse_scale(const Attention& x) {
  return x.dropout.scale > 0 ? 1 / x.dropout.scale : 0;
}

/// Calls `change` with the numbers of every score of a thread.
template <int columns, class Change>
__device__ void for_each_score(const Change& change) {
#pragma unroll
  for (int m = 0; m < tiles; ++m) {
#pragma unroll
    for (int n = 0; n < columns; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        change(m, n, i);
      }
    }
  }
}

/// Writes the gradients of scores to [batch, heads, queries, keys].
template <Element element, int columns, class Query, class Key>
__device__ void store_scores(
    const Attention& x,
    const float (&scores)[tiles][columns][4],
    std::int64_t batch,
    std::int64_t head,
    const Query& query_of,
    const Key& key_of,
    std::uint16_t* to) {
  for_each_score<columns>([&](int m, int n, int i) {
    const int query = query_of(m, n, i);
    const int key = key_of(m, n, i);
    if (query < x.queries && key >= 0 && key < x.keys) {
      const std::int64_t row = (batch * x.heads + head) * x.queries + query;
      to[row * x.keys + key] =
          to_bits(scores[m][n][i] * x.dropout.scale, element);
    }
  });
}

template <Element element, int size, Form form>
__global__ void __launch_bounds__(threads, blocks_at_once_of<size>)
    query_gradient_kernel(
        const Attention x,
        const PhiloxRounds rounds,
        const HeadsOfAll heads,
        const AttentionResult result,
        float2* of_rows,
        const HeadsTarget gradient,
        std::uint16_t* added,
        float* by_distance) {
  constexpr int tile_pieces = tile * size / 8;
  constexpr int row_pieces = rows * size / 8;
  constexpr int columns = 4; // matrices of 8 keys at once: 32 keys
  uint4* const memory = shared_memory();
  PlacedTile* const placed = reinterpret_cast<PlacedTile*>(
      memory + bytes_of_query_tiles<size> / sizeof(uint4));

  const int blocks = static_cast<int>((x.queries + rows - 1) / rows);
  const int block = blocks - 1 - static_cast<int>(blockIdx.x) % blocks;
  const std::int64_t plane = blockIdx.x / static_cast<unsigned>(blocks);
  const std::int64_t batch = plane / x.heads;
  const std::int64_t head = plane % x.heads;
  const std::int64_t group = head / (x.heads / x.groups);
  const int first_row = block * rows;
  const int lane = lanes().number;
  const int g = lanes().g;
  const int t = lanes().t;
  const int warp_row = static_cast<int>(threadIdx.x) / warp * tiles * matrix;
  const int first_query = first_row + warp_row;
  const HeadScores<form> head_scores(x, batch, head);
  const HeadDraws<form != Form::placed> draws(x.dropout, rounds, batch, head);
  const float factor = head_scores.factor();

  const auto fetch_own = [&](const Heads& from, int place) {
    copy_rows<InOrder, rows, size, threads>(
        rows_of(from, batch, head, x.queries, x.size),
        first_row,
        memory + place * row_pieces);
  };
  fetch_own(heads.query, 0);
  fetch_own(result.gradient, 1);
  fetch_own(result.output, 2);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncthreads();
  Left<size> queries[tiles];
  Left<size> outer[tiles];
  float exponents[tiles][2];
  float delta[tiles][2];
#pragma unroll
  for (int m = 0; m < tiles; ++m) {
    const int row = warp_row + m * matrix + lane % 16;
    load_left<size>(queries[m], memory, row);
    load_left<size>(outer[m], memory + row_pieces, row);
    Left<size> output;
    load_left<size>(output, memory + 2 * row_pieces, row);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float sum = 0;
#pragma unroll
      for (int k = 0; k < size / matrix; ++k) {
        sum += product_of_pairs<element>(outer[m][k][half], output[k][half]) +
            product_of_pairs<element>(
                   outer[m][k][half + 2],
                   output[k][half + 2]);
      }
      sum = over_row(sum, [](float a, float b) { return a + b; });
      const int query = first_query + m * matrix + half * 8 + g;
      const std::int64_t i = (batch * x.heads + head) * x.queries + query;
      const bool exists = query < x.queries;
      exponents[m][half] = exists ? exponent_of(result.log_sum[i]) : 0;
      // The factor of weights that stay comes last.
      delta[m][half] = sum * inverse_scale(x);
      if (exists && t == 0) {
        of_rows[i].x = exponents[m][half];
        of_rows[i].y = delta[m][half];
      }
    }
  }
  __syncthreads();

  const HeadRows keys = rows_of(heads.key, batch, group, x.keys, x.size);
  const HeadRows values = rows_of(heads.value, batch, group, x.keys, x.size);
  const int begin = first_of_tiles(x);
  const int count = tiles_between(
      begin,
      head_scores.last_key(
          min(first_row + rows, static_cast<int>(x.queries)) - 1));
  const auto fetch = [&](int number) {
    uint4* const stage = memory + number % 2 * 2 * tile_pieces;
    const int first = begin + number * tile;
    copy_rows<ByDraws, tile, size, threads>(keys, first, stage);
    copy_rows<ByDraws, tile, size, threads>(values, first, stage + tile_pieces);
    if constexpr (is_placed(form)) {
      copy_placed<threads>(
          x,
          batch,
          head,
          first_row,
          first,
          placed[number % 2]);
    }
  };
  if (count > 0) {
    fetch(0);
  }
  __pipeline_commit();
  float sums[tiles][size / 8][4];
  clear(sums);
  const std::int64_t distances = x.queries + x.keys - 1;
  const std::int64_t part_of_distances =
      ((batch * blocks + block) * x.heads + head) * distances;
  DistanceSums of_distances(
      *reinterpret_cast<DistanceSums::Memory*>(placed + 2),
      is_placed(form) && by_distance != nullptr
          ? by_distance + part_of_distances
          : nullptr,
      distances,
      begin - first_row + x.queries - tile);

  for (int number = 0; number < count; ++number) {
    __pipeline_wait_prior(0);
    __syncthreads();
    if (number + 1 < count) {
      fetch(number + 1);
    }
    __pipeline_commit();
    const uint4* const stage = memory + number % 2 * 2 * tile_pieces;
#pragma unroll parts_at_once < size>
    for (int part = 0; part < tile / 32; ++part) {
      const int first_key = begin + number * tile + part * 32;
      const auto query_in_tile = [&](int m, int, int i) {
        return warp_row + m * matrix + i / 2 * 8 + g;
      };
      const auto key_in_tile = [&](int, int n, int i) {
        return part * 32 + 8 * t + n * 2 + i % 2;
      };
      const auto set_gradients = [&](const auto& gradient) {
        if (of_distances.wanted()) {
          for_each_score<columns>([&](int m, int n, int i) {
            of_distances.set(
                query_in_tile(m, n, i),
                key_in_tile(m, n, i),
                gradient(m, n, i));
          });
        }
      };
      if (first_key > head_scores.last_key(first_query + tiles * matrix - 1)) {
        // None of the warp's queries sees these keys.
        if constexpr (is_placed(form)) {
          set_gradients([](int, int, int) { return 0.0F; });
        }
        continue;
      }
      float scores[tiles][columns][4];
      multiply_scores<element, ByDraws, size, tiles, columns / 2>(
          scores,
          queries,
          stage,
          part * 2);
      float inner[tiles][columns][4]; // gradients of the dropped weights
      multiply_scores<element, ByDraws, size, tiles, columns / 2>(
          inner,
          outer,
          stage + tile_pieces,
          part * 2);
      const auto query_of = [&](int m, int, int i) {
        return first_query + m * matrix + i / 2 * 8 + g;
      };
      const auto key_of = [&](int, int n, int i) {
        return first_key + 8 * t + n * 2 + i % 2;
      };
      if constexpr (is_placed(form)) {
        add_placed(
            scores,
            x.scale,
            placed[number % 2],
            query_in_tile,
            key_in_tile);
      }
      head_scores.hide(
          scores,
          head_scores.sees_all(first_query, first_key, first_key + 31),
          query_of,
          key_of);
#pragma unroll
      for (int m = 0; m < tiles; ++m) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const Philox4x32 draw = draws.of(
              x.first_query + first_query + m * matrix + half * 8 + g,
              eight_of(x, first_key) + static_cast<std::uint32_t>(t));
#pragma unroll
          for (int n = 0; n < columns; ++n) {
#pragma unroll
            for (int i = 2 * half; i < 2 * half + 2; ++i) {
              const std::uint32_t word = draw.words[n];
              const bool kept =
                  i % 2 == 0 ? draws.keeps_low(word) : draws.keeps_high(word);
              const float weight =
                  power_of_two(scores[m][n][i] * factor - exponents[m][half]);
              scores[m][n][i] =
                  weight * ((kept ? inner[m][n][i] : 0) - delta[m][half]);
            }
          }
        }
      }
      if constexpr (is_placed(form)) {
        set_gradients([&](int m, int n, int i) {
          return scores[m][n][i] * x.dropout.scale;
        });
      }
      if constexpr (form == Form::masked) {
        if (added != nullptr) {
          store_scores<element>(
              x,
              scores,
              batch,
              head,
              query_of,
              key_of,
              added);
        }
      }
#pragma unroll
      for (int pair = 0; pair < columns / 2; ++pair) {
        std::uint32_t of_scores[tiles][4];
#pragma unroll
        for (int m = 0; m < tiles; ++m) {
          to_left<element>(
              of_scores[m],
              scores[m][2 * pair],
              scores[m][2 * pair + 1]);
        }
        add_weighted<element, ByDraws, size>(
            sums,
            of_scores,
            stage,
            part * 2 + pair);
      }
    }
    if constexpr (is_placed(form)) {
      if (of_distances.wanted()) {
        __syncthreads();
        of_distances.sum_tile();
      }
    }
  }
  if constexpr (is_placed(form)) {
    if (of_distances.wanted()) {
      of_distances.finish();
    }
  }

#pragma unroll
  for (int m = 0; m < tiles; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int query = first_query + m * matrix + half * 8 + g;
      store_row<element, size>(
          sums[m],
          half,
          x.scale * x.dropout.scale,
          row_of(gradient, batch, head, query),
          query < x.queries,
          static_cast<int>(x.size / 8));
    }
  }
}

/// A tile of queries of one of a group's heads.
struct QueryTile {
  int head;
  int tile_of_head;

  __device__ void advance(int first, int end) {
    const bool wraps = ++tile_of_head == end;
    head += wraps ? 1 : 0;
    tile_of_head = wraps ? first : tile_of_head;
  }
};

/// Here matrices have keys as rows and queries as columns: sums of products are
/// then what the next product takes first. Rows g and g + 8 are keys 2g and
/// 2g + 1, which have the two halves of one random word.
template <Element element, int size, Form form>
__global__ void __launch_bounds__(threads, blocks_at_once_of<size>)
    key_gradient_kernel(
        const Attention x,
        const PhiloxRounds rounds,
        const HeadsOfAll heads,
        const AttentionResult result,
        const float2* of_rows,
        const HeadsTarget key_gradient,
        const HeadsTarget value_gradient) {
  constexpr int tile_pieces = tile * size / 8;
  constexpr int columns = 4; // matrices of 8 queries at once: 32 queries
  uint4* const memory = shared_memory();
  float2* const pairs = reinterpret_cast<float2*>(memory + 4 * tile_pieces);
  PlacedTile* const placed = reinterpret_cast<PlacedTile*>(
      memory + bytes_of_key_tiles<size> / sizeof(uint4));

  const int begin = first_of_tiles(x);
  const int blocks = (static_cast<int>(x.keys) - begin + rows - 1) / rows;
  const int block = static_cast<int>(blockIdx.x) % blocks;
  const std::int64_t plane = blockIdx.x / static_cast<unsigned>(blocks);
  const std::int64_t batch = plane / x.groups;
  const std::int64_t group = plane % x.groups;
  const int shared = static_cast<int>(x.heads / x.groups);
  const int first_row = begin + block * rows;
  const int lane = lanes().number;
  const int g = lanes().g;
  const int t = lanes().t;
  const int warp_row = static_cast<int>(threadIdx.x) / warp * tiles * matrix;
  const int first_key = first_row + warp_row;

  const auto fetch_own = [&](const Heads& from, int place) {
    copy_rows<InOrder, rows, size, threads>(
        rows_of(from, batch, group, x.keys, x.size),
        first_row,
        memory + place * rows * size / 8);
  };
  fetch_own(heads.key, 0);
  fetch_own(heads.value, 1);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncthreads();
  Left<size> keys[tiles];
  Left<size> values[tiles];
#pragma unroll
  for (int m = 0; m < tiles; ++m) {
    const int row = warp_row + m * matrix + lane % 8 * 2 + lane / 8 % 2;
    load_left<size>(keys[m], memory, row);
    load_left<size>(values[m], memory + rows * size / 8, row);
  }
  __syncthreads();

  const int first_tile =
      HeadScores<form>(x, batch, 0).first_query(first_row < 0 ? 0 : first_row) /
      tile;
  const int tiles_of_head = (static_cast<int>(x.queries) + tile - 1) / tile;
  const int count =
      first_tile < tiles_of_head ? (tiles_of_head - first_tile) * shared : 0;
  const auto fetch = [&](int number, const QueryTile& at) {
    const std::int64_t head = group * shared + at.head;
    const int first = at.tile_of_head * tile;
    uint4* const stage = memory + number % 2 * 2 * tile_pieces;
    copy_rows<InOrder, tile, size, threads>(
        rows_of(heads.query, batch, head, x.queries, x.size),
        first,
        stage);
    copy_rows<InOrder, tile, size, threads>(
        rows_of(result.gradient, batch, head, x.queries, x.size),
        first,
        stage + tile_pieces);
    if constexpr (is_placed(form)) {
      copy_placed<threads>(
          x,
          batch,
          head,
          first,
          first_row,
          placed[number % 2]);
    }
    const int query = first + static_cast<int>(threadIdx.x);
    if (threadIdx.x < static_cast<unsigned>(tile)) {
      copy_or_clear(
          pairs + number % 2 * tile + threadIdx.x,
          of_rows + (batch * x.heads + head) * x.queries + query,
          query < x.queries);
    }
  };
  QueryTile current{0, first_tile};
  QueryTile next = current;
  if (count > 0) {
    fetch(0, current);
  }
  __pipeline_commit();
  float of_keys[tiles][size / 8][4];
  float of_values[tiles][size / 8][4];
  clear(of_keys);
  clear(of_values);

  for (int number = 0; number < count; ++number) {
    __pipeline_wait_prior(0);
    __syncthreads();
    current = next;
    next.advance(first_tile, tiles_of_head);
    if (number + 1 < count) {
      fetch(number + 1, next);
    }
    __pipeline_commit();
    const uint4* const stage = memory + number % 2 * 2 * tile_pieces;
    const float2* const rows_of_tile = pairs + number % 2 * tile;
    const std::int64_t head = group * shared + current.head;
    const HeadScores<form> head_scores(x, batch, head);
    const HeadDraws<form != Form::placed> draws(x.dropout, rounds, batch, head);
    const float factor = head_scores.factor();
#pragma unroll parts_at_once < size>
    for (int part = 0; part < tile / 32; ++part) {
      const int in_tile = part * 32;
      const int first_query = current.tile_of_head * tile + in_tile;
      if (first_key > head_scores.last_key(first_query + 31)) {
        continue; // none of the queries sees the warp's keys
      }
      float scores[tiles][columns][4];
      multiply_scores<element, InOrder, size, tiles, columns / 2>(
          scores,
          keys,
          stage,
          part * 2);
      float inner[tiles][columns][4]; // gradients of the dropped weights
      multiply_scores<element, InOrder, size, tiles, columns / 2>(
          inner,
          values,
          stage + tile_pieces,
          part * 2);
      if constexpr (is_placed(form)) {
        add_placed(
            scores,
            x.scale,
            placed[number % 2],
            [&](int, int n, int i) { return in_tile + n * 8 + 2 * t + i % 2; },
            [&](int m, int, int i) {
              return warp_row + m * matrix + 2 * g + i / 2;
            });
      }
      head_scores.hide(
          scores,
          head_scores
              .sees_all(first_query, first_key, first_key + tiles * matrix - 1),
          [&](int, int n, int i) {
            return first_query + n * 8 + 2 * t + i % 2;
          },
          [&](int m, int, int i) {
            return first_key + m * matrix + 2 * g + i / 2;
          });
#pragma unroll
      for (int pair = 0; pair < columns / 2; ++pair) {
        std::uint32_t weights[tiles][4];
        std::uint32_t of_scores[tiles][4];
#pragma unroll
        for (int m = 0; m < tiles; ++m) {
          // Word r is for query r of the four that a thread has: 2t and 2t + 1
          // of two matrices. Four lanes with keys of one draw compute one query
          // each.
          const int own = g % 4;
          Philox4x32 draw = draws.of(
              x.first_query + first_query + (2 * pair + own / 2) * 8 + 2 * t +
                  own % 2,
              eight_of(x, first_key + m * matrix) +
                  static_cast<std::uint32_t>(g / 4));
          if constexpr (form != Form::placed) {
            exchange_words(draw.words, 4, 8);
          }
          float dropped[2][4];
          float gradients[2][4];
#pragma unroll
          for (int n = 0; n < 2; ++n) {
            const int query = in_tile + (2 * pair + n) * 8 + 2 * t;
            // Exponents and deltas of two queries.
            const float4 two =
                *reinterpret_cast<const float4*>(rows_of_tile + query);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
              const float weight = power_of_two(
                  scores[m][2 * pair + n][i] * factor -
                  (i % 2 == 0 ? two.x : two.z));
              const std::uint32_t word = draw.words[2 * n + i % 2];
              const bool kept =
                  i / 2 == 0 ? draws.keeps_low(word) : draws.keeps_high(word);
              dropped[n][i] = kept ? weight : 0;
              gradients[n][i] = weight *
                  ((kept ? inner[m][2 * pair + n][i] : 0) -
                   (i % 2 == 0 ? two.y : two.w));
            }
          }
          to_left<element>(weights[m], dropped[0], dropped[1]);
          to_left<element>(of_scores[m], gradients[0], gradients[1]);
        }
        add_weighted<element, InOrder, size>(
            of_values,
            weights,
            stage + tile_pieces,
            part * 2 + pair);
        add_weighted<element, InOrder, size>(
            of_keys,
            of_scores,
            stage,
            part * 2 + pair);
      }
    }
  }

#pragma unroll
  for (int m = 0; m < tiles; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int key = first_key + m * matrix + 2 * g + half;
      const bool exists = key >= 0 && key < x.keys;
      const int pieces = static_cast<int>(x.size / 8);
      store_row<element, size>(
          of_keys[m],
          half,
          x.scale * x.dropout.scale,
          row_of(key_gradient, batch, group, key),
          exists,
          pieces);
      store_row<element, size>(
          of_values[m],
          half,
          x.dropout.scale,
          row_of(value_gradient, batch, group, key),
          exists,
          pieces);
    }
  }
}

} // namespace
} // namespace attention

std::int64_t distance_parts(const Attention& x) {
  return x.batch * ((x.queries + attention::rows - 1) / attention::rows);
}

const char* attend_backward(
    const Attention& x,
    const HeadsOfAll& heads,
    const AttentionResult& result,
    float* of_rows,
    const AttentionGradientTargets& gradients,
    void* stream) {
  using namespace attention;
  return with_form(x, [&](auto element, auto size, auto form) -> const char* {
    // The kernel of queries also writes what the kernel of keys reads of them.
    if (x.batch * x.heads * x.queries > 0) {
      if (const char* failure = launch_large(
              query_gradient_kernel<element(), size(), form()>,
              {blocks_for(x.batch * x.heads, x.queries, rows),
               threads,
               shared_bytes_of_queries<size(), form()>},
              stream,
              x,
              PhiloxRounds(x.dropout.key),
              heads,
              result,
              reinterpret_cast<float2*>(of_rows),
              gradients.query,
              static_cast<std::uint16_t*>(gradients.added),
              gradients.by_distance)) {
        return failure;
      }
    }
    if (x.batch * x.groups * x.keys == 0) {
      return nullptr;
    }
    return launch_large(
        key_gradient_kernel<element(), size(), form()>,
        {blocks_for(
             x.batch * x.groups,
             x.keys + x.first_key % columns_of_a_draw,
             rows),
         threads,
         shared_bytes_of_keys<size(), form()>},
        stream,
        x,
        PhiloxRounds(x.dropout.key),
        heads,
        result,
        reinterpret_cast<float2*>(of_rows),
        gradients.key,
        gradients.value);
  });
}

} // namespace cairn::kernels::cuda
