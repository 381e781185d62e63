#include "kernels/cuda/attention.cuh"

namespace cairn::kernels::cuda {
namespace attention {
namespace {

constexpr int warps = 4;
constexpr int threads = warps * warp;

constexpr int tiles = 1; ///< matrices of 16 queries that a warp has
constexpr int rows = warps * tiles * matrix; ///< queries of a block

/// Blocks that a multiprocessor shall run at once, which bounds registers.
template <int size>
constexpr int blocks_at_once_of = size == 64 ? 4 : 2;

static_assert(rows == tile); // PlacedTile

/// Two times a tile of keys and one of values, and what is added to scores.
template <int size, Form form>
constexpr std::size_t shared_bytes_of =
    (rows + 4 * tile) * size * sizeof(std::uint16_t) + bytes_of_placed<form>;

/// How far exponents of 2 may grow before what was added up is scaled anew:
/// weights up to 2^8 are as exact in 16 bits as those below 1.
constexpr float headroom = 8;

/// What the exponents of each row are counted from, and sums of the
/// exponentials.
struct Softmax {
  float base[tiles][2];
  float sum[tiles][2]; ///< of this thread's columns

  __device__ Softmax() {
#pragma unroll
    for (int m = 0; m < tiles; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        base[m][half] = -INFINITY;
        sum[m][half] = 0;
      }
    }
  }

  /// Chooses other bases if the warp's scores need them. Scales `sums` then.
  template <int columns, int pieces>
  __device__ void prepare(
      const float (&scores)[tiles][columns][4],
      float factor,
      float (&sums)[tiles][pieces][4]) {
    float tops[tiles][2];
    bool grows = false;
#pragma unroll
    for (int m = 0; m < tiles; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float top = -INFINITY;
#pragma unroll
        for (int n = 0; n < columns; ++n) {
          top = fmaxf(
              top,
              fmaxf(scores[m][n][2 * half], scores[m][n][2 * half + 1]));
        }
        top = over_row(top, [](float a, float b) { return fmaxf(a, b); });
        tops[m][half] = top * factor;
        grows = grows || tops[m][half] > base[m][half] + headroom;
      }
    }
    if (!__any_sync(0xffffffffU, grows)) {
      return;
    }
#pragma unroll
    for (int m = 0; m < tiles; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if (tops[m][half] > base[m][half]) {
          const float correction = power_of_two(base[m][half] - tops[m][half]);
          base[m][half] = tops[m][half];
          sum[m][half] *= correction;
#pragma unroll
          for (int k = 0; k < pieces; ++k) {
            sums[m][k][2 * half] *= correction;
            sums[m][k][2 * half + 1] *= correction;
          }
        }
      }
    }
  }

  /// The exponential of a score, which it adds to the sum.
  __device__ float add(float score, int m, int half, float factor) {
    // Where all scores so far are hidden, so is this one.
    const float from = base[m][half] == -INFINITY ? 0 : base[m][half];
    const float result = power_of_two(score * factor - from);
    sum[m][half] += result;
    return result;
  }
};

template <Element element, int size, Form form>
__global__ void __launch_bounds__(threads, blocks_at_once_of<size>)
    attend_kernel(
        const Attention x,
        const PhiloxRounds rounds,
        const HeadsOfAll heads,
        const HeadsTarget output,
        float* log_sum) {
  constexpr int columns = tile / 8;
  constexpr int tile_pieces = tile * size / 8;
  uint4* const queries = shared_memory();
  uint4* const stages = queries + rows * size / 8;
  PlacedTile* const placed =
      reinterpret_cast<PlacedTile*>(stages + 4 * tile_pieces);

  // The last queries see the most keys, so their blocks begin first.
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
  const HeadScores<form> head_scores(x, batch, head);
  const int begin = first_of_tiles(x);
  const int count = tiles_between(
      begin,
      head_scores.last_key(
          min(first_row + rows, static_cast<int>(x.queries)) - 1));
  const HeadRows keys = rows_of(heads.key, batch, group, x.keys, x.size);
  const HeadRows values = rows_of(heads.value, batch, group, x.keys, x.size);
  const auto fetch = [&](int number) {
    uint4* const stage = stages + number % 2 * 2 * tile_pieces;
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

  copy_rows<InOrder, rows, size, threads>(
      rows_of(heads.query, batch, head, x.queries, x.size),
      first_row,
      queries);
  if (count > 0) {
    fetch(0);
  }
  __pipeline_commit();

  const HeadDraws<form != Form::placed> draws(x.dropout, rounds, batch, head);
  const float factor = head_scores.factor();
  const int first_query = first_row + warp_row;
  Left<size> own[tiles];
  float sums[tiles][size / 8][4];
  clear(sums);
  Softmax softmax;

  for (int number = 0; number < count; ++number) {
    __pipeline_wait_prior(0);
    __syncthreads();
    if (number == 0) {
#pragma unroll
      for (int m = 0; m < tiles; ++m) {
        load_left<size>(own[m], queries, warp_row + m * matrix + lane % 16);
      }
    }
    if (number + 1 < count) {
      fetch(number + 1);
    }
    __pipeline_commit();
    const uint4* const stage = stages + number % 2 * 2 * tile_pieces;
    const int first_key = begin + number * tile;
    if (first_key > head_scores.last_key(first_query + tiles * matrix - 1)) {
      continue; // none of the warp's queries sees these keys
    }

    float scores[tiles][columns][4];
    multiply_scores<element, ByDraws, size, tiles, tile / 16>(
        scores,
        own,
        stage,
        0);
    if constexpr (is_placed(form)) {
      add_placed(
          scores,
          x.scale,
          placed[number % 2],
          [&](int m, int, int i) {
            return warp_row + m * matrix + i / 2 * 8 + g;
          },
          [&](int, int n, int i) {
            return n / 4 * 32 + 8 * t + n % 4 * 2 + i % 2;
          });
    }
    head_scores.hide(
        scores,
        head_scores.sees_all(first_query, first_key, first_key + tile - 1),
        [&](int m, int, int i) {
          return first_query + m * matrix + i / 2 * 8 + g;
        },
        [&](int, int n, int i) {
          return first_key + n / 4 * 32 + 8 * t + n % 4 * 2 + i % 2;
        });
    softmax.prepare(scores, factor, sums);
#pragma unroll
    for (int m = 0; m < tiles; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const std::int64_t query =
            x.first_query + first_query + m * matrix + half * 8 + g;
#pragma unroll
        for (int four = 0; four < columns / 4; ++four) {
          const Philox4x32 draw = draws.of(
              query,
              eight_of(x, first_key + 32 * four) +
                  static_cast<std::uint32_t>(t));
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            float(&weights)[4] = scores[m][4 * four + j];
            const float low = softmax.add(weights[2 * half], m, half, factor);
            const float high =
                softmax.add(weights[2 * half + 1], m, half, factor);
            weights[2 * half] = draws.keeps_low(draw.words[j]) ? low : 0;
            weights[2 * half + 1] = draws.keeps_high(draw.words[j]) ? high : 0;
          }
        }
      }
    }
#pragma unroll
    for (int pair = 0; pair < tile / 16; ++pair) {
      std::uint32_t weights[tiles][4];
#pragma unroll
      for (int m = 0; m < tiles; ++m) {
        to_left<element>(
            weights[m],
            scores[m][2 * pair],
            scores[m][2 * pair + 1]);
      }
      add_weighted<element, ByDraws, size>(
          sums,
          weights,
          stage + tile_pieces,
          pair);
    }
  }

#pragma unroll
  for (int m = 0; m < tiles; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int query = first_query + m * matrix + half * 8 + g;
      const bool exists = query < x.queries;
      const float sum = over_row(softmax.sum[m][half], [](float a, float b) {
        return a + b;
      });
      store_row<element, size>(
          sums[m],
          half,
          sum > 0 ? x.dropout.scale / sum : 0,
          row_of(output, batch, head, query),
          exists,
          static_cast<int>(x.size / 8));
      if (exists && t == 0) {
        log_sum[(batch * x.heads + head) * x.queries + query] = sum > 0
            ? (softmax.base[m][half] + log2f(sum)) * ln_of_2
            : -INFINITY;
      }
    }
  }
}

} // namespace
} // namespace attention

bool can_attend(const Attention& x, const HeadsOfAll& heads) {
  const auto fits = [](const Heads& part) {
    return aligned_for_eight(part.data) && part.batch_step % 8 == 0 &&
        part.token_step % 8 == 0 && part.head_step % 8 == 0;
  };
  constexpr std::int64_t most = std::int64_t{1} << 30;
  return x.element != Element::fp32 && x.size > 0 && x.size <= 128 &&
      x.size % 8 == 0 && x.scale > 0 && x.groups > 0 &&
      x.heads % x.groups == 0 && x.first_query + x.queries < most &&
      x.first_key + x.keys < most && fits(heads.query) && fits(heads.key) &&
      fits(heads.value) &&
      ((x.placed.by_distance == nullptr && x.placed.by_key == nullptr) ||
       (x.mask.kind == ScoreMask::Kind::none && x.query_documents == nullptr));
}

const char* attend(
    const Attention& x,
    const HeadsOfAll& heads,
    const HeadsTarget& output,
    float* log_sum,
    void* stream) {
  if (x.batch * x.heads * x.queries == 0) {
    return nullptr;
  }
  return attention::with_form(x, [&](auto element, auto size, auto form) {
    return attention::launch_large(
        attention::attend_kernel<element(), size(), form()>,
        {attention::blocks_for(x.batch * x.heads, x.queries, attention::rows),
         attention::threads,
         attention::shared_bytes_of<size(), form()>},
        stream,
        x,
        PhiloxRounds(x.dropout.key),
        heads,
        output,
        log_sum);
  });
}

} // namespace cairn::kernels::cuda
