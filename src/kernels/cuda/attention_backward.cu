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

/// Tiles of keys and of values, twice; or queries, outputs and gradients.
template <int size>
constexpr std::size_t shared_bytes_of_queries =
    larger(bytes_of_rows<size>(3 * rows), bytes_of_rows<size>(4 * tile));

/// Tiles of queries and gradients, with two floats for each query, twice; or
/// keys and values.
template <int size>
constexpr std::size_t shared_bytes_of_keys = larger(
    bytes_of_rows<size>(2 * rows),
    bytes_of_rows<size>(4 * tile) + 4 * tile * sizeof(float));

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
#pragma unroll
  for (int m = 0; m < tiles; ++m) {
#pragma unroll
    for (int n = 0; n < columns; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int query = query_of(m, n, i);
        const int key = key_of(m, n, i);
        if (query < x.queries && key >= 0 && key < x.keys) {
          const std::int64_t row = (batch * x.heads + head) * x.queries + query;
          to[row * x.keys + key] =
              to_bits(scores[m][n][i] * x.dropout.scale, element);
        }
      }
    }
  }
}

template <Element element, int size, bool masks>
__global__ void __launch_bounds__(threads, blocks_at_once_of<size>)
    query_gradient_kernel(
        const Attention x,
        const PhiloxRounds rounds,
        const HeadsOfAll heads,
        const AttentionResult result,
        float2* of_rows,
        const HeadsTarget gradient,
        std::uint16_t* added) {
  constexpr int tile_pieces = tile * size / 8;
  constexpr int row_pieces = rows * size / 8;
  constexpr int columns = 4; // matrices of 8 keys at once: 32 keys
  uint4* const memory = shared_memory();

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
  const HeadScores<masks> head_scores(x, batch, head);
  const HeadDraws draws(x.dropout, rounds, batch, head);
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
  };
  if (count > 0) {
    fetch(0);
  }
  __pipeline_commit();
  float sums[tiles][size / 8][4];
  clear(sums);

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
      if (first_key > head_scores.last_key(first_query + tiles * matrix - 1)) {
        break; // none of the warp's queries sees these keys
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
      if constexpr (masks) {
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
template <Element element, int size, bool masks>
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

  const int first_tile = HeadScores<masks>(x, batch, 0)
                             .first_query(first_row < 0 ? 0 : first_row) /
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
    const HeadScores<masks> head_scores(x, batch, head);
    const HeadDraws draws(x.dropout, rounds, batch, head);
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
          exchange_words(draw.words, 4, 8);
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

const char* attend_backward(
    const Attention& x,
    const HeadsOfAll& heads,
    const AttentionResult& result,
    float* of_rows,
    const AttentionGradientTargets& gradients,
    void* stream) {
  using namespace attention;
  return with_form(x, [&](auto element, auto size, auto masks) -> const char* {
    // The kernel of queries also writes what the kernel of keys reads of them.
    if (x.batch * x.heads * x.queries > 0) {
      if (const char* failure = launch_large(
              query_gradient_kernel<element(), size(), masks()>,
              {blocks_for(x.batch * x.heads, x.queries, rows),
               threads,
               shared_bytes_of_queries<size()>},
              stream,
              x,
              PhiloxRounds(x.dropout.key),
              heads,
              result,
              reinterpret_cast<float2*>(of_rows),
              gradients.query,
              static_cast<std::uint16_t*>(gradients.added))) {
        return failure;
      }
    }
    if (x.batch * x.groups * x.keys == 0) {
      return nullptr;
    }
    return launch_large(
        key_gradient_kernel<element(), size(), masks()>,
        {blocks_for(
             x.batch * x.groups,
             x.keys + x.first_key % columns_of_a_draw,
             rows),
         threads,
         shared_bytes_of_keys<size()>},
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
