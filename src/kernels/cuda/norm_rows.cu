#include "kernels/internal/cuda/norm_rows.h"

#include "kernels/cuda/block.cuh"
#include "kernels/cuda/for_each.cuh"

namespace cairn::kernels::cuda {
namespace {

/// Threads of a block whose threads have `count` groups of columns each: many
/// groups need many registers.
constexpr int most_threads(int count) {
  return count == 1 ? 1024 : 512;
}

/// The values of a row that one thread has: `count` groups of `width` columns.
/// A block has a row; its threads take groups in turn.
template <int width, int count>
struct Part {
  float values[count][width];

  /// Calls `work(group, column)` for the groups that are in the row.
  template <class Work>
  __device__ static void over_columns(std::int64_t columns, const Work& work) {
#pragma unroll
    for (int group = 0; group < count; ++group) {
      const std::int64_t column =
          (static_cast<std::int64_t>(group) * blockDim.x + threadIdx.x) * width;
      if (column < columns) {
        work(group, column);
      }
    }
  }

  template <Element element>
  __device__ void read(
      const void* from,
      std::int64_t begin,
      std::int64_t columns) {
    over_columns(columns, [&](int group, std::int64_t column) {
      Lane lanes[width];
      load(from, element, begin + column, lanes);
#pragma unroll
      for (int k = 0; k < width; ++k) {
        values[group][k] = lanes[k].value;
      }
    });
  }
};

/// Statistics of the row whose values the threads of the block have.
struct RowStatistics {
  float mean;
  float inverse;
};

template <int width, int count>
__device__ RowStatistics
statistics_of(const Part<width, count>& part, const NormRows& rows) {
  using Values = Part<width, count>;
  const auto columns = static_cast<float>(rows.columns);
  float mean = 0;
  if (rows.centred) {
    Pair own{0, 0};
    Values::over_columns(rows.columns, [&](int group, std::int64_t) {
#pragma unroll
      for (int k = 0; k < width; ++k) {
        own.first += part.values[group][k];
      }
    });
    mean = over_block(own, AddPairs(), 0).first / columns;
  }
  Pair own{0, 0};
  Values::over_columns(rows.columns, [&](int group, std::int64_t) {
#pragma unroll
    for (int k = 0; k < width; ++k) {
      const float distance = part.values[group][k] - mean;
      own.first += distance * distance;
    }
  });
  const float variance = over_block(own, AddPairs(), 1).first / columns;
  return {mean, rsqrtf(variance + rows.epsilon)};
}

template <Element element, int width, int count>
__global__ void __launch_bounds__(most_threads(count))
    forward_kernel(NormRows rows, NormForward tensors) {
  using Values = Part<width, count>;
  const std::int64_t row = blockIdx.x;
  const std::int64_t begin = row * rows.columns;
  Values x;
  x.template read<element>(tensors.x, begin, rows.columns);
  if (tensors.added != nullptr) {
    Values added;
    added.template read<element>(tensors.added, begin, rows.columns);
    Values::over_columns(rows.columns, [&](int group, std::int64_t column) {
      Lane sum[width];
#pragma unroll
      for (int k = 0; k < width; ++k) {
        sum[k].value = x.values[group][k] + added.values[group][k];
      }
      store(sum, tensors.sum, element, begin + column);
      // The norm is that of the sum as others read it.
      round_to<element>(sum);
#pragma unroll
      for (int k = 0; k < width; ++k) {
        x.values[group][k] = sum[k].value;
      }
    });
  }
  const RowStatistics of_row = statistics_of(x, rows);
  if (threadIdx.x == 0) {
    if (rows.centred) {
      tensors.statistics.mean[row] = of_row.mean;
    }
    tensors.statistics.inverse[row] = of_row.inverse;
  }
  Values::over_columns(rows.columns, [&](int group, std::int64_t column) {
    Lane gamma[width];
    Lane beta[width];
    Lane y[width];
    load(tensors.gamma, element, column, gamma);
    if (tensors.beta != nullptr) {
      load(tensors.beta, element, column, beta);
    }
#pragma unroll
    for (int k = 0; k < width; ++k) {
      const float normal = (x.values[group][k] - of_row.mean) * of_row.inverse;
      y[k].value = normal * gamma[k].value +
          (tensors.beta != nullptr ? beta[k].value : 0);
    }
    store(y, tensors.y, element, begin + column);
  });
}

/// A block works on every `gridDim.x`-th row and keeps the sums of its columns
/// in registers.
template <Element element, int width, int count>
__global__ void __launch_bounds__(most_threads(count))
    backward_kernel(NormRows rows, NormBackward tensors) {
  using Values = Part<width, count>;
  Values of_gamma{};
  Values of_beta{};
  Values gamma;
  gamma.template read<element>(tensors.gamma, 0, rows.columns);
  int turn = 0;
  for (std::int64_t row = blockIdx.x; row < rows.rows; row += gridDim.x) {
    const std::int64_t begin = row * rows.columns;
    const float mean = rows.centred ? tensors.statistics.mean[row] : 0;
    const float inverse = tensors.statistics.inverse[row];
    Values normal; // becomes the normalized row
    Values slope;  // gradient of the normalized row
    normal.template read<element>(tensors.x, begin, rows.columns);
    slope.template read<element>(tensors.gradient, begin, rows.columns);
    Pair own{0, 0};
    Values::over_columns(rows.columns, [&](int group, std::int64_t) {
#pragma unroll
      for (int k = 0; k < width; ++k) {
        float& x = normal.values[group][k];
        float& gradient = slope.values[group][k];
        x = (x - mean) * inverse;
        of_gamma.values[group][k] += gradient * x;
        of_beta.values[group][k] += gradient;
        gradient *= gamma.values[group][k];
        own.first += gradient;
        own.second += gradient * x;
      }
    });
    const Pair sums = over_block(own, AddPairs(), turn++);
    const auto columns = static_cast<float>(rows.columns);
    const float shift = rows.centred ? sums.first / columns : 0;
    const float stretch = sums.second / columns;
    Values::over_columns(rows.columns, [&](int group, std::int64_t column) {
      Lane through[width];
      Lane of_x[width];
      if (tensors.through != nullptr) {
        load(tensors.through, element, begin + column, through);
      }
#pragma unroll
      for (int k = 0; k < width; ++k) {
        const float own_part = (slope.values[group][k] - shift -
                                normal.values[group][k] * stretch) *
            inverse;
        of_x[k].value =
            own_part + (tensors.through != nullptr ? through[k].value : 0);
      }
      store(of_x, tensors.of_x, element, begin + column);
    });
  }
  const std::int64_t part = blockIdx.x * rows.columns;
  Values::over_columns(rows.columns, [&](int group, std::int64_t column) {
    Lane sums[width];
#pragma unroll
    for (int k = 0; k < width; ++k) {
      sums[k].value = of_gamma.values[group][k];
    }
    store(sums, tensors.gamma_parts, Element::fp32, part + column);
    if (tensors.beta_parts != nullptr) {
#pragma unroll
      for (int k = 0; k < width; ++k) {
        sums[k].value = of_beta.values[group][k];
      }
      store(sums, tensors.beta_parts, Element::fp32, part + column);
    }
  });
}

/// Calls `start` with the element type and with how many groups of how many
/// columns a thread has, as constants of the compiler's, and with the number of
/// threads.
template <class Start>
const char* over_rows(const NormRows& rows, bool eights, const Start& start) {
  if (rows.rows <= 0 || rows.columns <= 0) {
    return nullptr;
  }
  if (rows.columns > most_norm_columns(eights ? 8 : 1)) {
    return "a norm of more columns than a block of the GPU can hold";
  }
  const char* failure = nullptr;
  with_element(rows.element, [&](auto element) {
    const auto with_part = [&](auto width, auto count) {
      const std::int64_t groups = (rows.columns + width() - 1) / width();
      const int threads =
          threads_for((groups + count() - 1) / count(), most_threads(count()));
      failure = start(element, width, count, threads);
    };
    using std::integral_constant;
    if (!eights) {
      with_part(integral_constant<int, 1>(), integral_constant<int, 8>());
    } else if (rows.columns <= 8 * most_threads(1)) {
      with_part(integral_constant<int, 8>(), integral_constant<int, 1>());
    } else {
      with_part(integral_constant<int, 8>(), integral_constant<int, 4>());
    }
  });
  return failure;
}

template <class... Pointers>
bool take_eights(const NormRows& rows, const Pointers*... pointers) {
  return rows.columns % 8 == 0 && (aligned_for_eight(pointers) && ...);
}

} // namespace

const char* norm_forward(
    const NormRows& rows,
    const NormForward& tensors,
    void* stream) {
  const bool eights = take_eights(
      rows,
      tensors.x,
      tensors.added,
      tensors.gamma,
      tensors.beta,
      tensors.sum,
      tensors.y);
  return over_rows(
      rows,
      eights,
      [&](auto element, auto width, auto count, int threads) {
        return launch(
            forward_kernel<element(), width(), count()>,
            static_cast<unsigned>(rows.rows),
            threads,
            stream,
            rows,
            tensors);
      });
}

std::int64_t norm_parts(const NormRows& rows) {
  // Depends on the rows alone, and so does the order of additions.
  return std::min<std::int64_t>(rows.rows, 1024);
}

const char* norm_backward(
    const NormRows& rows,
    const NormBackward& tensors,
    void* stream) {
  const bool eights = take_eights(
      rows,
      tensors.gradient,
      tensors.through,
      tensors.x,
      tensors.gamma,
      tensors.of_x,
      tensors.gamma_parts,
      tensors.beta_parts);
  return over_rows(
      rows,
      eights,
      [&](auto element, auto width, auto count, int threads) {
        return launch(
            backward_kernel<element(), width(), count()>,
            static_cast<unsigned>(norm_parts(rows)),
            threads,
            stream,
            rows,
            tensors);
      });
}

} // namespace cairn::kernels::cuda
