#include "kernels/internal/cuda/text_rows.h"

#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/block.cuh"
#include "kernels/cuda/for_each.cuh"
#include "kernels/cuda/highest.cuh"
#include "kernels/cuda/kept_pages.cuh"
#include "kernels/cuda/row_norm.cuh"

namespace cairn::kernels::cuda {
namespace {

constexpr int row_threads = 256;

template <Element element, int width>
__global__ void embed_kernel(TextRows rows, EmbeddedRows embedded) {
  const std::int64_t columns = embedded.columns;
  const std::int64_t row = blockIdx.x;
  const std::int64_t word = rows.tokens[row] * columns;
  const std::int64_t position =
      (rows.positions[row] + embedded.offset) * columns;
  for (std::int64_t i = threadIdx.x * width; i < columns;
       i += blockDim.x * width) {
    Lane values[width];
    load(embedded.words, element, word + i, values);
    if (embedded.positions != nullptr) {
      Lane added[width];
      load(embedded.positions, element, position + i, added);
#pragma unroll
      for (int k = 0; k < width; ++k) {
        values[k].value += added[k].value;
      }
    }
    store(values, embedded.y, element, row * columns + i);
  }
}

template <Element element, int width>
__global__ void normalize_kernel(NormalizedRows rows, TextNorm norm) {
  let_next_begin();
  wait_for_earlier();
  const std::int64_t columns = rows.columns;
  const std::int64_t row = blockIdx.x;
  const std::int64_t from =
      (rows.which != nullptr ? rows.which[row] : row) * columns;
  RowSums own = sums_from<element>(rows.x, from, norm);
  for (std::int64_t i = threadIdx.x * width; i < columns;
       i += blockDim.x * width) {
    Lane values[width];
    load(rows.x, element, from + i, values);
    own.add(values);
  }
  own.sums = over_block(own.sums, Add(), 0);
  const RowScale scale = own.scale(norm, static_cast<float>(columns));
  for (std::int64_t i = threadIdx.x * width; i < columns;
       i += blockDim.x * width) {
    Lane values[width];
    load(rows.x, element, from + i, values);
    normalize_values<element>(values, scale, norm, i);
    store(values, rows.y, element, row * columns + i);
  }
}

template <Element element>
struct Activate {
  Activation activation;
  void* x;
  const void* factor;

  template <int width>
  __device__ void operator()(std::int64_t i) const {
    Lane values[width];
    load(x, element, i, values);
#pragma unroll
    for (int k = 0; k < width; ++k) {
      values[k].value = activated(values[k].value, activation);
    }
    if (factor != nullptr) {
      Lane factors[width];
      load(factor, element, i, factors);
#pragma unroll
      for (int k = 0; k < width; ++k) {
        values[k].value *= factors[k].value;
      }
    }
    store(values, x, element, i);
  }
};

/// Element i of the rows [rows, groups, queries + 2, pages.row].
template <Element element>
struct SplitAndKeep {
  TextRows rows;
  TextHeads heads;
  KeptPages pages;
  SplitRows split;

  template <int width>
  __device__ void operator()(std::int64_t i) const {
#pragma unroll
    for (int k = 0; k < width; ++k) {
      place(i + k);
    }
  }

  __device__ void place(std::int64_t i) const {
    const int at = static_cast<int>(i % pages.row);
    i /= pages.row;
    const int head = static_cast<int>(i % (heads.queries + 2));
    if (head < heads.queries && split.query == nullptr) {
      return;
    }
    i /= heads.queries + 2;
    const int group = static_cast<int>(i % heads.groups);
    const std::int64_t row = i / heads.groups;
    const bool is_value = head == heads.queries + 1;
    Lane value[1];
    value[0].value = 0; // behind a head whose size is no multiple of 8
    if (at < heads.size) {
      const std::int64_t first =
          ((row * heads.groups + group) * (heads.queries + 2) + head) *
          heads.size;
      value[0].value = turned<element>(
          split.projected,
          first,
          at,
          heads,
          is_value ? -1 : angle_of(rows, row));
    }
    if (head >= heads.queries) {
      store(
          value,
          pages.data,
          element,
          place_in_pages(
              pages,
              pages.table +
                  static_cast<std::int64_t>(rows.places[row]) * pages.width,
              rows.positions[row]) +
              (is_value ? pages.values_at : pages.keys_at) +
              group * pages.head_step + at);
    }
    if (at < heads.size && split.query != nullptr) {
      const std::int64_t of_group = row * heads.groups + group;
      void* const to = head < heads.queries ? split.query
          : is_value                        ? split.value
                                            : split.key;
      store(
          value,
          to,
          element,
          (head < heads.queries ? of_group * heads.queries + head : of_group) *
                  heads.size +
              at);
    }
  }
};

/// SplitAndKeep for heads whose eights of elements lie together: piece i of the
/// rows [rows, groups, queries + 2, size / 8].
template <Element element>
struct SplitEights {
  TextRows rows;
  TextHeads heads;
  KeptPages pages;
  SplitRows split;

  template <int width>
  __device__ void operator()(std::int64_t number) const {
#pragma unroll
    for (int k = 0; k < width; ++k) {
      place(static_cast<unsigned>(number + k));
    }
  }

  __device__ void place(unsigned i) const {
    const auto pieces = static_cast<unsigned>(heads.size) / 8;
    const auto all = static_cast<unsigned>(heads.queries) + 2;
    const unsigned head_number = i / pieces;
    const int at = static_cast<int>(i - head_number * pieces) * 8;
    const unsigned of_group = head_number / all; // row and group
    const int head = static_cast<int>(head_number - of_group * all);
    if (head < heads.queries && split.query == nullptr) {
      return;
    }
    const auto groups = static_cast<unsigned>(heads.groups);
    const unsigned row = of_group / groups;
    const auto group = static_cast<int>(of_group - row * groups);
    const bool is_value = head == heads.queries + 1;
    const int position = rows.positions[row];
    const std::int64_t first =
        static_cast<std::int64_t>(head_number) * heads.size;
    Lane values[8];
    load(split.projected, element, first + at, values);
    if (heads.cosine != nullptr && !is_value) {
      const int half = heads.size / 2;
      const bool second = at >= half;
      const int pair = second ? at - half : at;
      Lane others[8];
      Lane cosines[8];
      Lane sines[8];
      load(
          split.projected,
          element,
          first + (second ? pair : at + half),
          others);
      const std::int64_t angle =
          static_cast<std::int64_t>(angle_of(rows, row)) * half + pair;
      load(heads.cosine, Element::fp32, angle, cosines);
      load(heads.sine, Element::fp32, angle, sines);
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        const float turn = others[k].value * sines[k].value;
        values[k].value =
            values[k].value * cosines[k].value + (second ? turn : -turn);
      }
    }
    void* to = split.query;
    std::int64_t target =
        (static_cast<std::int64_t>(of_group) * heads.queries + head) *
        heads.size;
    if (head >= heads.queries) {
      to = is_value ? split.value : split.key;
      target = static_cast<std::int64_t>(of_group) * heads.size;
      store(
          values,
          pages.data,
          element,
          place_in_pages(
              pages,
              pages.table +
                  static_cast<std::int64_t>(rows.places[row]) * pages.width,
              position) +
              (is_value ? pages.values_at : pages.keys_at) +
              group * pages.head_step + at);
    }
    if (to != nullptr) {
      store(values, to, element, target + at);
    }
  }
};

/// Element i of the keys and values [tokens, groups, 2, size].
template <Element element>
struct ReadPages {
  KeptPages pages;
  std::int64_t place;
  TextHeads heads;
  void* key;
  void* value;

  template <int width>
  __device__ void operator()(std::int64_t i) const {
#pragma unroll
    for (int k = 0; k < width; ++k) {
      copy(i + k);
    }
  }

  __device__ void copy(std::int64_t i) const {
    const std::int64_t at = i % heads.size;
    i /= heads.size;
    const bool is_value = i % 2 != 0;
    i /= 2;
    const std::int64_t group = i % heads.groups;
    const std::int64_t token = i / heads.groups;
    Lane each[1];
    load(
        pages.data,
        element,
        place_in_pages(
            pages,
            pages.table + place * pages.width,
            static_cast<int>(token)) +
            (is_value ? pages.values_at : pages.keys_at) +
            group * pages.head_step + at,
        each);
    store(each, is_value ? value : key, element, i * heads.size + at);
  }
};

constexpr int peak_threads = 1024;

/// A block has a row. Its threads keep a maximum and the sum of exponentials
/// less that maximum; later both are brought together.
__global__ void __launch_bounds__(peak_threads)
    peak_kernel(ScoredRows rows, ScorePeak* peaks) {
  let_next_begin();
  wait_for_earlier();
  const std::int64_t row = blockIdx.x;
  const float* const scores = rows.scores + row * rows.step;
  const int columns = static_cast<int>(rows.columns);
  const int limit = rows.limits != nullptr ? rows.limits[row] : columns;
  Highest own{-INFINITY, 0x7fffffff};
  float top = -INFINITY;
  float sum = 0;
  bool finite = true;
  constexpr int at_once = 8;
  for (int first = static_cast<int>(threadIdx.x); first < columns;
       first += at_once * peak_threads) {
    float few[at_once];
#pragma unroll
    for (int k = 0; k < at_once; ++k) {
      const int column = first + k * peak_threads;
      few[k] = column < columns ? scores[column] : -INFINITY;
    }
    float higher_top = top;
#pragma unroll
    for (int k = 0; k < at_once; ++k) {
      const int column = first + k * peak_threads;
      // Minus infinity is a score; NaN and infinity are none.
      finite = finite && (few[k] < INFINITY);
      if (column < limit && few[k] > own.score) {
        own = {few[k], column};
      }
      higher_top = fmaxf(higher_top, few[k]);
    }
    if (higher_top > top) {
      sum *= power_of_two((top - higher_top) * log2_of_e);
      top = higher_top;
    }
    if (top > -INFINITY) {
#pragma unroll
      for (int k = 0; k < at_once; ++k) {
        sum += power_of_two((few[k] - top) * log2_of_e);
      }
    }
  }
  own = over_block(own, TakeHigher(), 0);
  // The highest score of all columns: `own` is that of those below the limit.
  const Highest most = over_block(Highest{top, 0}, TakeHigher(), 1);
  const float share =
      top > -INFINITY ? sum * power_of_two((top - most.score) * log2_of_e) : 0;
  const Pair sums = over_block(Pair{share, finite ? 0.0F : 1.0F}, Add(), 2);
  if (threadIdx.x == 0) {
    const bool all_finite = sums.second == 0;
    peaks[row] = {
        all_finite ? own.score : NAN,
        most.score + logf(sums.first),
        own.column};
  }
}

template <class Begin>
const char* by_element(Element element, bool eights, const Begin& begin) {
  const char* failure = nullptr;
  with_element(element, [&](auto type) {
    failure = eights ? begin(type, std::integral_constant<int, 8>())
                     : begin(type, std::integral_constant<int, 1>());
  });
  return failure;
}

template <class... Pointers>
bool in_eights(std::int64_t columns, const Pointers*... pointers) {
  return columns % 8 == 0 && (aligned_for_eight(pointers) && ...);
}

} // namespace

const char* embed(
    const TextRows& rows,
    const EmbeddedRows& embedded,
    void* stream) {
  if (rows.count == 0) {
    return nullptr;
  }
  const bool eights = in_eights(
      embedded.columns,
      embedded.words,
      embedded.positions,
      embedded.y);
  return by_element(embedded.element, eights, [&](auto type, auto width) {
    return launch(
        embed_kernel<type(), width()>,
        {static_cast<unsigned>(rows.count), row_threads},
        stream,
        rows,
        embedded);
  });
}

const char* normalize(
    const NormalizedRows& rows,
    const TextNorm& norm,
    Start start,
    void* stream) {
  if (rows.rows == 0) {
    return nullptr;
  }
  const bool eights =
      in_eights(rows.columns, rows.x, norm.gamma, norm.beta, rows.y);
  return by_element(rows.element, eights, [&](auto type, auto width) {
    const Grid grid{static_cast<unsigned>(rows.rows), row_threads};
    const auto kernel = normalize_kernel<type(), width()>;
    return start == Start::early
        ? launch_early(kernel, grid, stream, rows, norm)
        : launch(kernel, grid, stream, rows, norm);
  });
}

const char* activate(
    Activation activation,
    Element element,
    std::int64_t count,
    void* x,
    const void* factor,
    void* stream) {
  const char* failure = nullptr;
  with_element(element, [&](auto type) {
    failure = for_each(
        count,
        aligned(x, element) && aligned(factor, element),
        Activate<type()>{activation, x, factor},
        stream);
  });
  return failure;
}

const char* split_and_keep(
    const TextRows& rows,
    const TextHeads& heads,
    const KeptPages& pages,
    const SplitRows& split,
    void* stream) {
  const char* failure = nullptr;
  const std::int64_t pieces =
      rows.count * heads.groups * (heads.queries + 2) * (heads.size / 8);
  const bool eights = heads.size % (heads.cosine != nullptr ? 16 : 8) == 0 &&
      pieces < std::int64_t{1} << 31 && aligned_for_eight(split.projected) &&
      aligned_for_eight(split.query) && aligned_for_eight(split.key) &&
      aligned_for_eight(split.value) && aligned_for_eight(heads.cosine) &&
      aligned_for_eight(heads.sine);
  with_element(split.element, [&](auto type) {
    if (eights) {
      failure = for_each(
          pieces,
          false,
          SplitEights<type()>{rows, heads, pages, split},
          stream);
      return;
    }
    failure = for_each(
        rows.count * heads.groups * (heads.queries + 2) * pages.row,
        false,
        SplitAndKeep<type()>{rows, heads, pages, split},
        stream);
  });
  return failure;
}

const char* read_pages(
    const KeptPages& pages,
    std::int64_t place,
    std::int64_t tokens,
    const TextHeads& heads,
    void* key,
    void* value,
    void* stream) {
  const char* failure = nullptr;
  with_element(pages.element, [&](auto type) {
    failure = for_each(
        tokens * heads.groups * 2 * heads.size,
        false,
        ReadPages<type()>{pages, place, heads, key, value},
        stream);
  });
  return failure;
}

const char* find_peaks(
    const ScoredRows& rows,
    ScorePeak* peaks,
    Start start,
    void* stream) {
  if (rows.rows == 0) {
    return nullptr;
  }
  const Grid grid{static_cast<unsigned>(rows.rows), peak_threads};
  return start == Start::early
      ? launch_early(peak_kernel, grid, stream, rows, peaks)
      : launch(peak_kernel, grid, stream, rows, peaks);
}

} // namespace cairn::kernels::cuda
