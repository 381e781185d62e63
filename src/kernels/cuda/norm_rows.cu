#include "kernels/internal/cuda/norm_rows.h"

#include "kernels/cuda/block.cuh"
#include "kernels/cuda/for_each.cuh"
#include "kernels/cuda/fp8_words.cuh"

namespace cairn::kernels::cuda {
namespace {

/// Rows that a block has on the way while it works on one.
constexpr int rows_ahead = 2;

/// Blocks that a processor of the GPU is to run at once, so that many rows are
/// on the way: few threads each, or one large block.
constexpr int least_blocks(int most_threads) {
  return most_threads <= 256 ? 3 : 1;
}

/// The part of a row that one thread has: `count` groups of `width` columns.
/// A block has a row; its threads take groups in turn.
template <int width, int count>
struct Part {
  Lane values[count][width];

  /// Calls `work(group, column)` for the groups that are in the row.
  template <class Work>
  __device__ static void over_columns(std::int64_t columns, const Work& work) {
#pragma unroll
    for (int group = 0; group < count; ++group) {
      const int column = (group * static_cast<int>(blockDim.x) +
                          static_cast<int>(threadIdx.x)) *
          width;
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
    over_columns(columns, [&](int group, int column) {
      load(from, element, begin + column, values[group]);
    });
  }
};

/// A few elements in the bits in which they lie in memory.
template <Element element, int width>
using Bits = std::conditional_t<
    element == Element::fp32,
    typename Pack<width>::Floats,
    typename Pack<width>::Bits>;

template <Element element, int width>
__device__ Bits<element, width> bits_at(const void* from, std::int64_t i) {
  return static_cast<const Bits<element, width>*>(from)[i / width];
}

/// The rows that a block works on next. They arrive while it works.
template <class Row>
class Ahead {
 public:
  template <class Tensors>
  __device__ Ahead(const NormRows& rows, const Tensors& tensors) {
#pragma unroll
    for (int i = 0; i < rows_ahead; ++i) {
      rows_[i].fetch(
          rows,
          tensors,
          blockIdx.x + static_cast<std::int64_t>(i) * gridDim.x);
    }
  }

  /// Gives `row`, and begins to fetch the one that is `rows_ahead` turns later.
  template <class Tensors>
  __device__ Row
  next(const NormRows& rows, const Tensors& tensors, std::int64_t row) {
    const Row now = rows_[0];
#pragma unroll
    for (int i = 1; i < rows_ahead; ++i) {
      rows_[i - 1] = rows_[i];
    }
    rows_[rows_ahead - 1].fetch(
        rows,
        tensors,
        row + static_cast<std::int64_t>(rows_ahead) * gridDim.x);
    return now;
  }

 private:
  Row rows_[rows_ahead];
};

/// Writes eight values in e4m3, and returns the largest of them that is finite.
__device__ inline float store_rounded(
    const Lane (&values)[8],
    float factor,
    void* to,
    std::int64_t i) {
  uint2 pair{
      word_of<Fp8::e4m3>(values, factor),
      word_of<Fp8::e4m3>(values + 4, factor)};
  float most = 0;
#pragma unroll
  for (const Lane& value : values) {
    most = fmaxf(most, fabsf(value.value));
  }
  const bool finite = most <= largest_float;
  if (!finite) { // what became the largest number must show
    pair.x = (pair.x & ~0xffU) | fp8_no_number;
  }
  *reinterpret_cast<uint2*>(static_cast<std::uint8_t*>(to) + i) = pair;
  return finite ? most : 0;
}

/// The values of one row that the forward pass reads.
template <Element element, int width, int count>
struct ForwardRow {
  Bits<element, width> x[count];
  Bits<element, width> added[count];
  float first; ///< about the first value of the row that is normalized

  __device__ void fetch(
      const NormRows& rows,
      const NormForward& tensors,
      std::int64_t row) {
    if (row >= rows.rows) {
      return;
    }
    const std::int64_t begin = row * rows.columns;
    Part<width, count>::over_columns(rows.columns, [&](int group, int column) {
      x[group] = bits_at<element, width>(tensors.x, begin + column);
      if (tensors.added != nullptr) {
        added[group] = bits_at<element, width>(tensors.added, begin + column);
      }
    });
    Lane value[1];
    load(tensors.x, element, begin, value);
    first = value[0].value;
    if (tensors.added != nullptr) {
      load(tensors.added, element, begin, value);
      first += value[0].value;
    }
  }
};

/// A block works on every `gridDim.x`-th row.
template <Element element, int width, int count, int most_threads>
__global__ void __launch_bounds__(most_threads, least_blocks(most_threads))
    forward_kernel(NormRows rows, NormForward tensors) {
  using Values = Part<width, count>;
  Values gamma;
  Values beta{};
  gamma.template read<element>(tensors.gamma, 0, rows.columns);
  if (tensors.beta != nullptr) {
    beta.template read<element>(tensors.beta, 0, rows.columns);
  }
  int turn = 0;
  const float factor = tensors.rounded != nullptr ? 1 / *tensors.unit : 0;
  float own_most = 0;
  Ahead<ForwardRow<element, width, count>> ahead(rows, tensors);
  for (std::int64_t row = blockIdx.x; row < rows.rows; row += gridDim.x) {
    const auto now = ahead.next(rows, tensors, row);
    const std::int64_t begin = row * rows.columns;
    // Sums of distances from a value of the row: one pass over it is enough,
    // and its mean may be far from zero.
    const float origin = rows.centred ? now.first : 0;
    Values x;
    Pair own{0, 0};
    Values::over_columns(rows.columns, [&](int group, int column) {
      Lane(&values)[width] = x.values[group];
      load(&now.x[group], element, 0, values);
      if (tensors.added != nullptr) {
        Lane added[width];
        load(&now.added[group], element, 0, added);
#pragma unroll
        for (int k = 0; k < width; ++k) {
          values[k].value += added[k].value;
        }
        // The norm is that of the sum as others read it.
        round_to<element>(values);
        store(values, tensors.sum, element, begin + column);
      }
#pragma unroll
      for (int k = 0; k < width; ++k) {
        const float distance = values[k].value - origin;
        own.first += distance;
        own.second += distance * distance;
      }
    });
    const Pair sums = over_block(own, Add(), turn++);
    const auto columns = static_cast<float>(rows.columns);
    const float shift = rows.centred ? sums.first / columns : 0;
    const float spread = sums.second / columns - shift * shift;
    const float variance =
        spread < 0 ? 0 : spread; // what is not a number stays
    const float mean = origin + shift;
    const float inverse = rsqrtf(variance + rows.epsilon);
    if (threadIdx.x == 0) {
      if (rows.centred) {
        tensors.statistics.mean[row] = mean;
      }
      tensors.statistics.inverse[row] = inverse;
    }
    Values::over_columns(rows.columns, [&](int group, int column) {
      Lane y[width];
#pragma unroll
      for (int k = 0; k < width; ++k) {
        y[k].value = (x.values[group][k].value - mean) * inverse *
                gamma.values[group][k].value +
            beta.values[group][k].value;
      }
      if constexpr (width == 8 && element != Element::fp32) {
        if (tensors.rounded != nullptr) {
          round_to<element>(y); // as whoever reads it in 16 bits
          own_most = fmaxf(
              own_most,
              store_rounded(y, factor, tensors.rounded, begin + column));
          return;
        }
      }
      store(y, tensors.y, element, begin + column);
    });
  }
  if (tensors.rounded != nullptr && tensors.largest != nullptr) {
    const float most = over_block(own_most, Largest(), turn);
    if (threadIdx.x == 0) {
      raise(tensors.largest, most);
    }
  }
}

/// The values of one row that the backward pass reads.
template <Element element, int width, int count>
struct BackwardRow {
  Bits<element, width> x[count];
  Bits<element, width> gradient[count];
  Bits<element, width> through[count];
  float mean = 0;
  float inverse = 0;

  __device__ void fetch(
      const NormRows& rows,
      const NormBackward& tensors,
      std::int64_t row) {
    if (row >= rows.rows) {
      return;
    }
    const std::int64_t begin = row * rows.columns;
    Part<width, count>::over_columns(rows.columns, [&](int group, int column) {
      const std::int64_t i = begin + column;
      x[group] = bits_at<element, width>(tensors.x, i);
      gradient[group] = bits_at<element, width>(tensors.gradient, i);
      if (tensors.through != nullptr) {
        through[group] = bits_at<element, width>(tensors.through, i);
      }
    });
    mean = rows.centred ? tensors.statistics.mean[row] : 0;
    inverse = tensors.statistics.inverse[row];
  }
};

/// A block works on every `gridDim.x`-th row and keeps the sums of its columns
/// in registers.
template <Element element, int width, int count, int most_threads>
__global__ void __launch_bounds__(most_threads, least_blocks(most_threads))
    backward_kernel(NormRows rows, NormBackward tensors) {
  using Values = Part<width, count>;
  Values of_gamma{};
  Values of_beta{};
  Values gamma;
  gamma.template read<element>(tensors.gamma, 0, rows.columns);
  int turn = 0;
  Ahead<BackwardRow<element, width, count>> ahead(rows, tensors);
  for (std::int64_t row = blockIdx.x; row < rows.rows; row += gridDim.x) {
    const auto now = ahead.next(rows, tensors, row);
    const std::int64_t begin = row * rows.columns;
    Values normal; // the normalized row
    Values slope;  // gradient of the normalized row
    Pair own{0, 0};
    Values::over_columns(rows.columns, [&](int group, int) {
      load(&now.x[group], element, 0, normal.values[group]);
      load(&now.gradient[group], element, 0, slope.values[group]);
#pragma unroll
      for (int k = 0; k < width; ++k) {
        float& x = normal.values[group][k].value;
        float& gradient = slope.values[group][k].value;
        x = (x - now.mean) * now.inverse;
        of_gamma.values[group][k].value += gradient * x;
        of_beta.values[group][k].value += gradient;
        gradient *= gamma.values[group][k].value;
        own.first += gradient;
        own.second += gradient * x;
      }
    });
    const Pair sums = over_block(own, Add(), turn++);
    const auto columns = static_cast<float>(rows.columns);
    const float shift = rows.centred ? sums.first / columns : 0;
    const float stretch = sums.second / columns;
    Values::over_columns(rows.columns, [&](int group, int column) {
      Lane through[width];
      Lane of_x[width];
      if (tensors.through != nullptr) {
        load(&now.through[group], element, 0, through);
      }
#pragma unroll
      for (int k = 0; k < width; ++k) {
        const float own_part = (slope.values[group][k].value - shift -
                                normal.values[group][k].value * stretch) *
            now.inverse;
        of_x[k].value =
            own_part + (tensors.through != nullptr ? through[k].value : 0);
      }
      store(of_x, tensors.of_x, element, begin + column);
    });
  }
  const std::int64_t part = blockIdx.x * rows.columns;
  Values::over_columns(rows.columns, [&](int group, int column) {
    store(
        of_gamma.values[group],
        tensors.gamma_parts,
        Element::fp32,
        part + column);
    if (tensors.beta_parts != nullptr) {
      store(
          of_beta.values[group],
          tensors.beta_parts,
          Element::fp32,
          part + column);
    }
  });
}

/// How the kernels are compiled and started.
template <int columns_of_group, int groups, int threads>
struct Form {
  static constexpr int width = columns_of_group; ///< of a group
  static constexpr int count = groups;           ///< of a thread
  static constexpr int most_threads = threads;

  static int threads_of(const NormRows& rows) {
    const std::int64_t all = (rows.columns + width - 1) / width;
    return threads_for((all + count - 1) / count, most_threads);
  }
};

/// Calls `start` with the form of the kernel for these rows.
template <class Start>
auto with_form(const NormRows& rows, bool eights, const Start& start) {
  if (!eights) {
    return start(Form<1, 8, 512>());
  }
  return rows.columns <= 8 * 256 ? start(Form<8, 1, 256>())
                                 : start(Form<8, 1, 1024>());
}

/// Calls `start` with the element type, as a constant of the compiler's, and
/// the form.
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
    failure = with_form(rows, eights, [&](auto form) {
      return start(element, form);
    });
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
      tensors.y,
      tensors.rounded);
  if (tensors.rounded != nullptr &&
      (!eights || rows.element == Element::fp32)) {
    return "a norm in fp8 of rows that the GPU does not read in eights";
  }
  return over_rows(rows, eights, [&](auto element, auto form) {
    const auto kernel =
        forward_kernel<element(), form.width, form.count, form.most_threads>;
    const int threads = form.threads_of(rows);
    const auto blocks =
        std::min<std::int64_t>(rows.rows, blocks_at_once(kernel, threads, 0));
    return launch(
        kernel,
        {static_cast<unsigned>(blocks), static_cast<unsigned>(threads)},
        stream,
        rows,
        tensors);
  });
}

std::int64_t norm_parts(const NormRows& rows) {
  // The GPU runs so many blocks at once when a thread has 80 registers.
  const int threads = with_form(rows, rows.columns % 8 == 0, [&](auto form) {
    return form.threads_of(rows);
  });
  return std::min<std::int64_t>(
      rows.rows,
      processors() * std::max(1, 768 / threads));
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
  return over_rows(rows, eights, [&](auto element, auto form) {
    return launch(
        backward_kernel<element(), form.width, form.count, form.most_threads>,
        {static_cast<unsigned>(norm_parts(rows)),
         static_cast<unsigned>(form.threads_of(rows))},
        stream,
        rows,
        tensors);
  });
}

} // namespace cairn::kernels::cuda
