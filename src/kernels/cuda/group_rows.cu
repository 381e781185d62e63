#include "kernels/internal/cuda/group_rows.h"

#include <algorithm>

#include "kernels/cuda/gelu.cuh"
#include "kernels/cuda/lane.cuh"
#include "kernels/cuda/launch.cuh"

namespace cairn::kernels::cuda {
namespace {

/// A block has as many vectors of columns as a warp has threads, and this many
/// rows at a time.
constexpr int group_across = 32;
constexpr int group_rows_at_once = 8;

/// The group of a row: the first one that ends after it; the number of all
/// groups for a row of nobody.
__device__ inline int group_of(
    std::int64_t row,
    const std::int32_t* ends,
    int groups) {
  int first = 0;
  int last = groups;
  while (first < last) {
    const int middle = (first + last) / 2;
    if (ends[middle] > row) {
      last = middle;
    } else {
      first = middle + 1;
    }
  }
  return first;
}

/// A last operation on a row after its bias was added: none.
struct SumsAlone {
  template <Element element, int width>
  __device__ void operator()(Lane (&)[width], std::int64_t) const {}
};

struct GeluOfSums {
  Gelu kind;
  void* y;

  /// Takes GELU of the sums as they are stored.
  template <Element element, int width>
  __device__ void operator()(Lane (&lanes)[width], std::int64_t i) const {
    round_to<element>(lanes);
#pragma unroll
    for (int k = 0; k < width; ++k) {
      lanes[k].value = gelu(lanes[k].value, kind);
    }
    store(lanes, y, element, i);
  }
};

template <Element element, int width, class Finish>
__global__ void __launch_bounds__(group_across* group_rows_at_once)
    add_biases_kernel(
        GroupedRows rows,
        const void* biases,
        void* x,
        Finish finish) {
  const std::int64_t column =
      (static_cast<std::int64_t>(blockIdx.y) * group_across + threadIdx.x) *
      width;
  const std::int64_t row =
      static_cast<std::int64_t>(blockIdx.x) * group_rows_at_once + threadIdx.y;
  if (column >= rows.columns || row >= rows.rows) {
    return;
  }
  const auto groups = static_cast<int>(rows.groups);
  const int group = group_of(row, rows.ends, groups);
  if (group == groups) {
    return;
  }
  const std::int64_t i = row * rows.columns + column;
  Lane lanes[width];
  load(x, element, i, lanes);
  if (biases != nullptr) {
    Lane added[width];
    load(biases, element, group * rows.columns + column, added);
#pragma unroll
    for (int k = 0; k < width; ++k) {
      lanes[k].value += added[k].value;
    }
    store(lanes, x, element, i);
  }
  finish.template operator()<element>(lanes, i);
}

/// Gives the elements of a matrix.
struct GivenRows {
  const void* x;

  template <Element element, int width>
  __device__ void operator()(std::int64_t i, Lane (&lanes)[width]) const {
    load(x, element, i, lanes);
  }
};

/// Multiplies gradients by the slope of GELU, and gives them as they are
/// stored.
struct GeluGradientRows {
  Gelu kind;
  const void* x;
  void* gradient;

  template <Element element, int width>
  __device__ void operator()(std::int64_t i, Lane (&lanes)[width]) const {
    Lane inputs[width];
    load(gradient, element, i, lanes);
    load(x, element, i, inputs);
#pragma unroll
    for (int k = 0; k < width; ++k) {
      lanes[k].value *= gelu_slope(inputs[k].value, kind);
    }
    round_to<element>(lanes);
    store(lanes, gradient, element, i);
  }
};

/// Sums the rows of a part of a group: each `parts_of_group *
/// group_rows_at_once`-th of its rows. `blockIdx.y` counts the parts of all
/// groups.
template <Element element, int width, class Source>
__global__ void __launch_bounds__(group_across* group_rows_at_once)
    group_sums_kernel(
        GroupedRows rows,
        int parts_of_group,
        Source source,
        float* parts) {
  __shared__ float sums[group_rows_at_once][group_across * width];
  const int group = static_cast<int>(blockIdx.y) / parts_of_group;
  const int part = static_cast<int>(blockIdx.y) % parts_of_group;
  const std::int64_t begin = group == 0 ? 0 : rows.ends[group - 1];
  const std::int64_t end = rows.ends[group];
  const std::int64_t column =
      (static_cast<std::int64_t>(blockIdx.x) * group_across + threadIdx.x) *
      width;
  float own[width] = {};
  if (column < rows.columns) {
    for (std::int64_t row = begin +
             static_cast<std::int64_t>(part) * group_rows_at_once + threadIdx.y;
         row < end;
         row +=
         static_cast<std::int64_t>(parts_of_group) * group_rows_at_once) {
      Lane lanes[width];
      source.template operator()<element>(row * rows.columns + column, lanes);
#pragma unroll
      for (int k = 0; k < width; ++k) {
        own[k] += lanes[k].value;
      }
    }
  }
#pragma unroll
  for (int k = 0; k < width; ++k) {
    sums[threadIdx.y][threadIdx.x * width + k] = own[k];
  }
  __syncthreads();
  const int first = static_cast<int>(threadIdx.y * group_across + threadIdx.x);
  for (int j = first; j < group_across * width;
       j += group_across * group_rows_at_once) {
    const std::int64_t place =
        static_cast<std::int64_t>(blockIdx.x) * group_across * width + j;
    if (place < rows.columns) {
      float sum = 0;
#pragma unroll
      for (int i = 0; i < group_rows_at_once; ++i) {
        sum += sums[i][j];
      }
      parts[blockIdx.y * rows.columns + place] = sum;
    }
  }
}

bool has_no_rows(const GroupedRows& rows) {
  return rows.rows <= 0 || rows.columns <= 0 || rows.groups <= 0;
}

unsigned blocks_across(const GroupedRows& rows, int width) {
  const std::int64_t columns = static_cast<std::int64_t>(group_across) * width;
  return static_cast<unsigned>((rows.columns + columns - 1) / columns);
}

template <class Finish>
const char* add_biases(
    const GroupedRows& rows,
    bool eights,
    const void* biases,
    void* x,
    const Finish& finish,
    void* stream) {
  const char* failure = nullptr;
  with_element(rows.element, [&](auto element) {
    failure = launch(
        eights ? add_biases_kernel<element(), 8, Finish>
               : add_biases_kernel<element(), 1, Finish>,
        {dim3(
             static_cast<unsigned>(
                 (rows.rows + group_rows_at_once - 1) / group_rows_at_once),
             blocks_across(rows, eights ? 8 : 1)),
         dim3(group_across, group_rows_at_once)},
        stream,
        rows,
        biases,
        x,
        finish);
  });
  return failure;
}

template <class Source>
const char* sum_groups(
    const GroupedRows& rows,
    bool eights,
    const Source& source,
    float* parts,
    void* stream) {
  const std::int64_t parts_of_group = group_parts(rows);
  const char* failure = nullptr;
  with_element(rows.element, [&](auto element) {
    failure = launch(
        eights ? group_sums_kernel<element(), 8, Source>
               : group_sums_kernel<element(), 1, Source>,
        {dim3(
             blocks_across(rows, eights ? 8 : 1),
             static_cast<unsigned>(parts_of_group * rows.groups)),
         dim3(group_across, group_rows_at_once)},
        stream,
        rows,
        static_cast<int>(parts_of_group),
        source,
        parts);
  });
  return failure;
}

/// True when eight elements at a time can be read from all of them; null counts
/// as well.
template <class... Pointers>
bool in_eights(const GroupedRows& rows, const Pointers*... pointers) {
  return rows.columns % 8 == 0 && (aligned_for_eight(pointers) && ...);
}

} // namespace

const char* add_group_biases(
    const GroupedRows& rows,
    const void* biases,
    void* x,
    void* stream) {
  return has_no_rows(rows) ? nullptr
                           : add_biases(
                                 rows,
                                 in_eights(rows, biases, x),
                                 biases,
                                 x,
                                 SumsAlone(),
                                 stream);
}

const char* add_group_biases_gelu(
    const GroupedRows& rows,
    Gelu kind,
    const void* biases,
    void* x,
    void* y,
    void* stream) {
  return has_no_rows(rows) ? nullptr
                           : add_biases(
                                 rows,
                                 in_eights(rows, biases, x, y),
                                 biases,
                                 x,
                                 GeluOfSums{kind, y},
                                 stream);
}

std::int64_t group_parts(const GroupedRows& rows) {
  // About a thousand blocks, of no less than 64 rows each if all groups are
  // equal.
  const std::int64_t groups = std::max<std::int64_t>(rows.groups, 1);
  const std::int64_t blocks = (rows.columns + 255) / 256 * groups;
  const std::int64_t most = std::max<std::int64_t>(rows.rows / groups / 64, 1);
  return std::clamp<std::int64_t>(
      1024 / std::max<std::int64_t>(blocks, 1),
      1,
      most);
}

const char* group_sums(
    const GroupedRows& rows,
    const void* x,
    float* parts,
    void* stream) {
  return has_no_rows(rows)
      ? nullptr
      : sum_groups(rows, in_eights(rows, x), GivenRows{x}, parts, stream);
}

const char* group_gelu_backward(
    const GroupedRows& rows,
    Gelu kind,
    const void* x,
    void* gradient,
    float* parts,
    void* stream) {
  return has_no_rows(rows) ? nullptr
                           : sum_groups(
                                 rows,
                                 in_eights(rows, x, gradient),
                                 GeluGradientRows{kind, x, gradient},
                                 parts,
                                 stream);
}

} // namespace cairn::kernels::cuda
