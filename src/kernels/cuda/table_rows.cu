#include "kernels/internal/cuda/table_rows.h"

#include "kernels/cuda/block.cuh"
#include "kernels/cuda/lane.cuh"
#include "kernels/cuda/launch.cuh"

namespace cairn::kernels::cuda {
namespace {

// Common words are picked thousands of times, rare ones once. Every block
// therefore sums up as many gradients as the others, a stretch of the sorted
// ones. Sums of rows that lie within a stretch are added to the table at once.
// The others are kept as parts, two for each stretch: of the row that began
// before it, and of the row that goes on after it.

constexpr int most_threads = 256;    ///< of a block, which has one stretch
constexpr std::int64_t stretch = 16; ///< gradients that a block sums up
constexpr int at_once = 4;           ///< reads on their way from memory

enum Part { began_before = 0, goes_on = 1 };

std::int64_t stretches(const PickedRows& picked) {
  return (picked.count + stretch - 1) / stretch;
}

__device__ std::int64_t end_of(const PickedRows& picked, std::int64_t number) {
  const std::int64_t end = (number + 1) * stretch;
  return end < picked.count ? end : picked.count;
}

/// True when the gradients i - 1 and i belong to the same row of the table.
__device__ bool joined(const PickedRows& picked, std::int64_t i) {
  return i > 0 && i < picked.count &&
      picked.numbers[i - 1] == picked.numbers[i];
}

__device__ std::int64_t part_at(
    const PickedRows& picked,
    std::int64_t number,
    Part part) {
  return (2 * number + part) * picked.columns;
}

template <int width>
__device__ void add(const Lane (&some)[width], Lane (&sums)[width]) {
#pragma unroll
  for (int k = 0; k < width; ++k) {
    sums[k].value += some[k].value;
  }
}

/// A table of rows that sums are added to.
struct Table {
  void* rows;
  Element element;
};

template <int width>
__device__ void add_to_row(
    const Lane (&sums)[width],
    const Table& table,
    std::int64_t place) {
  Lane row[width];
  load(table.rows, table.element, place, row);
  add(sums, row);
  store(row, table.rows, table.element, place);
}

/// Adds up the gradients of one stretch, in the columns of one thread.
template <Element element, int width>
__device__ void sum_stretch(
    const PickedRows& picked,
    std::int64_t column,
    float* parts,
    const Table& table) {
  const std::int64_t begin = blockIdx.x * stretch;
  const std::int64_t end = end_of(picked, blockIdx.x);
  bool before = joined(picked, begin);
  Lane sums[width] = {};
  for (std::int64_t first = begin; first < end; first += at_once) {
    Lane lanes[at_once][width];
#pragma unroll
    for (int j = 0; j < at_once; ++j) {
      const std::int64_t i = first + j < end ? first + j : end - 1;
      load(
          picked.gradients,
          element,
          picked.order[i] * picked.columns + column,
          lanes[j]);
    }
#pragma unroll
    for (int j = 0; j < at_once; ++j) {
      const std::int64_t i = first + j;
      if (i >= end) {
        break;
      }
      if (i == begin || !joined(picked, i)) {
#pragma unroll
        for (int k = 0; k < width; ++k) {
          sums[k].value = 0;
        }
      }
      add(lanes[j], sums);
      const bool more = joined(picked, i + 1);
      if (more && i + 1 < end) {
        continue;
      }
      if (before || more) {
        const Part part = before ? began_before : goes_on;
        store(
            sums,
            parts,
            Element::fp32,
            part_at(picked, blockIdx.x, part) + column);
      } else {
        add_to_row(sums, table, picked.numbers[i] * picked.columns + column);
      }
      before = false;
    }
  }
}

template <Element element, int width>
__global__ void __launch_bounds__(most_threads)
    table_stretch_kernel(PickedRows picked, float* parts, Table table) {
  for (std::int64_t column = static_cast<std::int64_t>(threadIdx.x) * width;
       column < picked.columns;
       column += static_cast<std::int64_t>(blockDim.x) * width) {
    sum_stretch<element, width>(picked, column, parts, table);
  }
}

/// Number of the first gradient that belongs to a later row of the table.
__device__ std::int64_t end_of_row(const PickedRows& picked, std::int64_t row) {
  std::int64_t first = 0;
  std::int64_t last = picked.count;
  while (first < last) {
    const std::int64_t middle = (first + last) / 2;
    if (picked.numbers[middle] > row) {
      last = middle;
    } else {
      first = middle + 1;
    }
  }
  return first;
}

/// Adds up the parts of the row that begins in the block's stretch and goes on
/// after it.
template <int width>
__global__ void __launch_bounds__(most_threads)
    table_rest_kernel(PickedRows picked, const float* parts, Table table) {
  const std::int64_t begin = blockIdx.x * stretch;
  const std::int64_t end = end_of(picked, blockIdx.x);
  const std::int64_t row = picked.numbers[end - 1];
  const bool began_earlier =
      joined(picked, begin) && picked.numbers[begin] == row;
  if (!joined(picked, end) || began_earlier) {
    return;
  }
  const std::int64_t last = (end_of_row(picked, row) - 1) / stretch;
  for (std::int64_t column = static_cast<std::int64_t>(threadIdx.x) * width;
       column < picked.columns;
       column += static_cast<std::int64_t>(blockDim.x) * width) {
    const auto load_part = [&](std::int64_t number, Part part, auto& lanes) {
      load(parts, Element::fp32, part_at(picked, number, part) + column, lanes);
    };
    Lane sums[width];
    load_part(blockIdx.x, goes_on, sums);
    for (std::int64_t first = blockIdx.x + 1; first <= last; first += at_once) {
      Lane some[at_once][width];
#pragma unroll
      for (int j = 0; j < at_once; ++j) {
        load_part(first + j < last ? first + j : last, began_before, some[j]);
      }
#pragma unroll
      for (int j = 0; j < at_once; ++j) {
        if (first + j <= last) {
          add(some[j], sums);
        }
      }
    }
    add_to_row(sums, table, row * picked.columns + column);
  }
}

template <Element element, int width>
const char* add_rows(
    const PickedRows& picked,
    float* scratch,
    const Table& table,
    void* stream) {
  const Grid grid{
      static_cast<unsigned>(stretches(picked)),
      threads_for((picked.columns + width - 1) / width, most_threads)};
  if (const char* failure = launch(
          table_stretch_kernel<element, width>,
          grid,
          stream,
          picked,
          scratch,
          table)) {
    return failure;
  }
  return launch(table_rest_kernel<width>, grid, stream, picked, scratch, table);
}

} // namespace

std::int64_t table_scratch(const PickedRows& picked) {
  return 2 * stretches(picked) * picked.columns;
}

const char* add_to_table(
    const PickedRows& picked,
    float* scratch,
    void* table,
    Element table_element,
    void* stream) {
  if (picked.count <= 0 || picked.columns <= 0) {
    return nullptr;
  }
  const bool fours = picked.columns % 4 == 0 &&
      aligned(picked.gradients, picked.element) &&
      aligned(table, table_element) && aligned(scratch, Element::fp32);
  const char* failure = nullptr;
  const Table to{table, table_element};
  with_element(picked.element, [&](auto element) {
    failure = fours ? add_rows<element(), 4>(picked, scratch, to, stream)
                    : add_rows<element(), 1>(picked, scratch, to, stream);
  });
  return failure;
}

} // namespace cairn::kernels::cuda
