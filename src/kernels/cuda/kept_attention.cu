#include "kernels/internal/cuda/kept_attention.h"

#include "kernels/cuda/block.cuh"
#include "kernels/cuda/fast_math.cuh"
#include "kernels/cuda/kept_pages.cuh"
#include "kernels/cuda/lane.cuh"
#include "kernels/cuda/launch.cuh"

#include <cmath>

// A block has one row, some query heads that share a head of keys, and a
// stretch of the row's tokens. So many lanes as a key has pieces of 8 elements
// have one key at a time, and a softmax of their own over the keys that they
// see; at the end all of these are brought together. Keys come straight from
// memory: each is read by one group of lanes.

namespace cairn::kernels::cuda {
namespace {

constexpr int attend_threads = 128;
constexpr int attend_warps = attend_threads / warp_size;

/// Query heads that a block has at most.
constexpr int most_queries = 4;

/// What a softmax has so far: all exponents are less `top`.
struct Weighed {
  float top = -INFINITY;
  float sum = 0;
};

/// Factor for what was added up with `top` when it becomes `higher`.
__device__ inline float correction(float top, float higher) {
  return power_of_two(top - (higher == -INFINITY ? 0 : higher));
}

template <Element element>
using Piece = std::conditional_t<
    element == Element::fp32,
    typename Pack<8>::Floats,
    typename Pack<8>::Bits>;

/// The work of one block, by its number.
struct Share {
  int split;
  int first_query; ///< of the group
  int group;
  std::int64_t row;
  std::int64_t number; ///< of row, group and queries
};

template <int queries>
__device__ Share share_of(unsigned block, const KeptAttention& x) {
  const auto splits = static_cast<unsigned>(x.splits);
  const auto parts =
      static_cast<unsigned>((x.heads.queries + queries - 1) / queries);
  const auto groups = static_cast<unsigned>(x.heads.groups);
  const unsigned number = block / splits;
  return {
      static_cast<int>(block % splits),
      static_cast<int>(number % parts) * queries,
      static_cast<int>(number / parts % groups),
      number / parts / groups,
      number};
}

/// Adds up the results of warps or of splits: `count` of them, which lie `step`
/// floats apart, each [queries][width + 2] with the top and the sum last.
/// Returns element `i` of query `q`, and what it was made with in `all`.
template <int width>
__device__ float joined(
    const float* parts,
    int count,
    std::int64_t step,
    int q,
    int i,
    Weighed& all) {
  const float* const own = parts + q * (width + 2);
  all = {};
  for (int k = 0; k < count; ++k) {
    all.top = fmaxf(all.top, own[k * step + width]);
  }
  float result = 0;
  for (int k = 0; k < count; ++k) {
    const float factor = correction(own[k * step + width], all.top);
    all.sum += own[k * step + width + 1] * factor;
    result += own[k * step + i] * factor;
  }
  return result;
}

template <Element element, int lanes, int queries>
__global__ void __launch_bounds__(attend_threads)
    attend_kept_kernel(TextRows rows, KeptPages pages, KeptAttention x) {
  constexpr int width = 8 * lanes;
  constexpr int slots = attend_threads / lanes; ///< keys at a time
  constexpr int at_once = element == Element::fp32 ? 2 : 4;
  constexpr int part_floats = queries * (width + 2);
  constexpr std::int64_t bytes = element == Element::fp32 ? 4 : 2;
  __shared__ float own_query[queries][width];
  __shared__ float own_key[width];
  __shared__ float own_value[width];
  __shared__ float parts[attend_warps * part_floats];
  __shared__ unsigned is_last;

  let_next_begin();
  const Share share = share_of<queries>(blockIdx.x, x);
  const int position = rows.positions[share.row];
  const int turn = angle_of(rows, share.row);
  const int length = position + 1;
  const int each = (length + x.splits - 1) / x.splits;
  const int begin = share.split * each;
  const int end = begin + each < length ? begin + each : length;
  const int thread = static_cast<int>(threadIdx.x);
  const int slot = thread / lanes;
  const int lane = thread % lanes;
  const bool used = 8 * lane < pages.row;
  const std::int32_t* const table = pages.table +
      static_cast<std::int64_t>(rows.places[share.row]) * pages.width;
  const std::int64_t head_at = share.group * pages.head_step + 8 * lane;

  // The row's own key is not in the pages yet where it is fresh.
  const auto fetch =
      [&](int first, std::int64_t at, Piece<element>(&to)[at_once]) {
#pragma unroll
        for (int k = 0; k < at_once; ++k) {
          const int key = first + k * slots + slot;
          to[k] = {};
          if (used && key < end && !(x.fresh && key == position)) {
            to[k] = *reinterpret_cast<const Piece<element>*>(
                static_cast<const char*>(pages.data) +
                (place_in_pages(pages, table, key) + at + head_at) * bytes);
          }
        }
      };
  Piece<element> keys[at_once];
  Piece<element> values[at_once];
  fetch(begin, pages.keys_at, keys);
  fetch(begin, pages.values_at, values);

  wait_for_earlier();
  const int size = x.heads.size;
  const int heads_of_group = x.fresh ? x.heads.queries + 2 : x.heads.queries;
  const std::int64_t first_head =
      (share.row * x.heads.groups + share.group) * heads_of_group;
  const float scale = x.scale * log2_of_e;
  for (int i = thread; i < queries * width; i += attend_threads) {
    const int query = share.first_query + i / width;
    const int at = i % width;
    own_query[i / width][at] = at < size && query < x.heads.queries ? scale *
            turned<element>(x.query,
                            (first_head + query) * size,
                            at,
                            x.heads,
                            x.fresh ? turn : -1)
                                                                    : 0;
  }
  if (x.fresh && begin <= position && position < end) {
    const bool writes = share.first_query == 0;
    const std::int64_t place =
        place_in_pages(pages, table, position) + share.group * pages.head_step;
    for (int i = thread; i < 2 * width; i += attend_threads) {
      const bool is_value = i >= width;
      const int at = i % width;
      Lane own[1];
      own[0].value = at < size
          ? turned<element>(
                x.query,
                (first_head + x.heads.queries + (is_value ? 1 : 0)) * size,
                at,
                x.heads,
                is_value ? -1 : turn)
          : 0;
      round_to<element>(own);
      (is_value ? own_value : own_key)[at] = own[0].value;
      if (writes && at < pages.row) {
        store(
            own,
            pages.data,
            element,
            place + (is_value ? pages.values_at : pages.keys_at) + at);
      }
    }
  }
  __syncthreads();

  float query[queries][8];
  float result[queries][8];
  Weighed softmax[queries];
#pragma unroll
  for (int q = 0; q < queries; ++q) {
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      query[q][k] = own_query[q][8 * lane + k];
      result[q][k] = 0;
    }
  }
  for (int first = begin; first < end; first += slots * at_once) {
    float scores[at_once][queries];
#pragma unroll
    for (int k = 0; k < at_once; ++k) {
      const int key = first + k * slots + slot;
      const bool is_own = x.fresh && key == position && key < end;
      Lane numbers[8];
      load(&keys[k], element, 0, numbers);
#pragma unroll
      for (int q = 0; q < queries; ++q) {
        float sum = 0;
#pragma unroll
        for (int j = 0; j < 8; ++j) {
          sum +=
              query[q][j] * (is_own ? own_key[8 * lane + j] : numbers[j].value);
        }
#pragma unroll
        for (int mask = lanes / 2; mask > 0; mask /= 2) {
          sum += __shfl_xor_sync(0xffffffffU, sum, mask);
        }
        scores[k][q] = key < end ? sum : -INFINITY;
      }
    }
    const bool more = first + slots * at_once < end;
    if (more) {
      fetch(first + slots * at_once, pages.keys_at, keys);
    }
#pragma unroll
    for (int q = 0; q < queries; ++q) {
      float top = softmax[q].top;
#pragma unroll
      for (int k = 0; k < at_once; ++k) {
        top = fmaxf(top, scores[k][q]);
      }
      const float factor = correction(softmax[q].top, top);
      softmax[q].top = top;
      softmax[q].sum *= factor;
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        result[q][j] *= factor;
      }
    }
#pragma unroll
    for (int k = 0; k < at_once; ++k) {
      const int key = first + k * slots + slot;
      const bool is_own = x.fresh && key == position && key < end;
      Lane numbers[8];
      load(&values[k], element, 0, numbers);
#pragma unroll
      for (int q = 0; q < queries; ++q) {
        const float weight = correction(scores[k][q], softmax[q].top);
        softmax[q].sum += weight;
#pragma unroll
        for (int j = 0; j < 8; ++j) {
          result[q][j] +=
              weight * (is_own ? own_value[8 * lane + j] : numbers[j].value);
        }
      }
    }
    if (more) {
      fetch(first + slots * at_once, pages.values_at, values);
    }
  }

  // The slots of a warp, then those of all warps.
#pragma unroll
  for (int q = 0; q < queries; ++q) {
#pragma unroll
    for (int mask = lanes; mask < warp_size; mask *= 2) {
      const float other = __shfl_xor_sync(0xffffffffU, softmax[q].top, mask);
      const float top = fmaxf(softmax[q].top, other);
      const float factor = correction(softmax[q].top, top);
      softmax[q].top = top;
      softmax[q].sum *= factor;
      softmax[q].sum += __shfl_xor_sync(0xffffffffU, softmax[q].sum, mask);
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        result[q][j] *= factor;
        result[q][j] += __shfl_xor_sync(0xffffffffU, result[q][j], mask);
      }
    }
  }
  if (thread % warp_size < lanes) {
    float* const part = parts + thread / warp_size * part_floats;
#pragma unroll
    for (int q = 0; q < queries; ++q) {
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        part[q * (width + 2) + 8 * lane + j] = result[q][j];
      }
      if (lane == 0) {
        part[q * (width + 2) + width] = softmax[q].top;
        part[q * (width + 2) + width + 1] = softmax[q].sum;
      }
    }
  }
  __syncthreads();
  const auto write = [&](const float* from, int count, std::int64_t step) {
    for (int i = thread; i < queries * width; i += attend_threads) {
      const int q = i / width;
      const int at = i % width;
      if (at < size && share.first_query + q < x.heads.queries) {
        Weighed all;
        Lane y[1];
        y[0].value = joined<width>(from, count, step, q, at, all);
        y[0].value /= all.sum;
        store(
            y,
            x.y,
            element,
            ((share.row * x.heads.groups + share.group) * x.heads.queries +
             share.first_query + q) *
                    size +
                at);
      }
    }
  };
  if (x.splits == 1) {
    write(parts, attend_warps, part_floats);
    return;
  }
  // The block that comes last brings the splits together.
  float* const all = x.parts + share.number * x.splits * part_floats;
  for (int i = thread; i < queries * width; i += attend_threads) {
    float* const own =
        all + share.split * part_floats + i / width * (width + 2);
    Weighed softmax_of_all;
    own[i % width] = joined<width>(
        parts,
        attend_warps,
        part_floats,
        i / width,
        i % width,
        softmax_of_all);
    if (i % width == 0) {
      own[width] = softmax_of_all.top;
      own[width + 1] = softmax_of_all.sum;
    }
  }
  __threadfence();
  __syncthreads();
  if (thread == 0) {
    is_last = atomicAdd(x.counters + share.number, 1U) ==
            static_cast<unsigned>(x.splits) - 1
        ? 1
        : 0;
  }
  __syncthreads();
  if (is_last != 0) {
    __threadfence();
    write(all, x.splits, part_floats);
    if (thread == 0) {
      x.counters[share.number] = 0;
    }
  }
}

/// The form of the kernel for some heads.
int lanes_for(const TextHeads& heads) {
  return heads.size <= 64 ? 8 : heads.size <= 128 ? 16 : 32;
}
int queries_for(const TextHeads& heads) {
  return heads.queries == 1 ? 1 : most_queries;
}
std::int64_t shares_of(const TextHeads& heads, std::int64_t rows) {
  const int each = queries_for(heads);
  return rows * heads.groups * ((heads.queries + each - 1) / each);
}

} // namespace

std::int64_t attention_part_floats(
    const TextHeads& heads,
    std::int64_t rows,
    int splits) {
  return shares_of(heads, rows) * splits * queries_for(heads) *
      (8 * lanes_for(heads) + 2);
}

std::int64_t attention_counters(const TextHeads& heads, std::int64_t rows) {
  return shares_of(heads, rows);
}

const char* attend_kept(
    const TextRows& rows,
    const KeptPages& pages,
    const KeptAttention& attention,
    Start start,
    void* stream) {
  const TextHeads& heads = attention.heads;
  if (heads.size > longest_kept_head) {
    return "a head that is longer than the GPU's attention takes";
  }
  if (rows.count == 0) {
    return nullptr;
  }
  const Grid grid{
      static_cast<unsigned>(shares_of(heads, rows.count) * attention.splits),
      attend_threads};
  const char* failure = nullptr;
  with_element(pages.element, [&](auto element) {
    const auto with_lanes = [&](auto lanes) {
      const auto with_queries = [&](auto queries) {
        const auto kernel = attend_kept_kernel<element(), lanes(), queries()>;
        failure = start == Start::early
            ? launch_early(kernel, grid, stream, rows, pages, attention)
            : launch(kernel, grid, stream, rows, pages, attention);
      };
      if (queries_for(heads) == 1) {
        with_queries(std::integral_constant<int, 1>());
      } else {
        with_queries(std::integral_constant<int, most_queries>());
      }
    };
    switch (lanes_for(heads)) {
      case 8:
        return with_lanes(std::integral_constant<int, 8>());
      case 16:
        return with_lanes(std::integral_constant<int, 16>());
      default:
        return with_lanes(std::integral_constant<int, 32>());
    }
  });
  return failure;
}

} // namespace cairn::kernels::cuda
