#include "kernels/internal/cuda/score_rows.h"

#include <cfloat>

#include "kernels/cuda/block.cuh"
#include "kernels/cuda/fast_math.cuh"
#include "kernels/cuda/for_each.cuh"

#include <cuda_pipeline.h>

namespace cairn::kernels::cuda {
namespace {

constexpr int most_threads = 1024;
/// Pieces of a row that a thread reads before it works on them.
constexpr int pieces_at_once = 4;

/// One row of scores. A piece has `width` columns; the threads of a block take
/// pieces in turn, and no thread reads or writes a column of another's.
template <Element element, int width>
struct Row {
  void* scores; ///< of all rows
  std::int64_t begin;
  int columns;
  int used;

  __device__ Row(const ScoreRows& rows, std::int64_t row)
      : scores(rows.scores),
        begin(row * rows.columns),
        columns(static_cast<int>(rows.columns)),
        used(static_cast<int>(rows.used)) {}

  __device__ bool has(int label) const { return label >= 0 && label < used; }
  /// True in the thread whose piece has the column.
  __device__ static bool is_mine(int column) {
    return column / width % static_cast<int>(blockDim.x) ==
        static_cast<int>(threadIdx.x);
  }

  /// Columns from `used` on become minus infinity.
  __device__ void hide_padding(Lane (&lanes)[width], int column) const {
    if (column + width > used) {
#pragma unroll
      for (int k = 0; k < width; ++k) {
        lanes[k].value = column + k < used ? lanes[k].value : -INFINITY;
      }
    }
  }

  /// Calls `work(lanes, column)` for each piece of this thread's that begins
  /// before column `end`, with the scores that `from` has at `offset`.
  template <class Work>
  __device__ void over_pieces(
      const void* from,
      std::int64_t offset,
      int end,
      const Work& work) const {
    const int stride = static_cast<int>(blockDim.x) * width;
    for (int first = static_cast<int>(threadIdx.x) * width; first < end;
         first += stride * pieces_at_once) {
      Lane lanes[pieces_at_once][width];
#pragma unroll
      for (int i = 0; i < pieces_at_once; ++i) {
        if (first + i * stride < end) {
          load(from, element, offset + first + i * stride, lanes[i]);
        }
      }
#pragma unroll
      for (int i = 0; i < pieces_at_once; ++i) {
        if (first + i * stride < end) {
          hide_padding(lanes[i], first + i * stride);
          work(lanes[i], first + i * stride);
        }
      }
    }
  }

  /// The row's highest score, finite also where a rank has nothing but
  /// padding, and the sum of e^(score - highest). All threads of the block call
  /// it.
  __device__ Pair
  exponentials(const void* from, std::int64_t offset, int turn) const {
    float own = -FLT_MAX;
    over_pieces(from, offset, used, [&](const Lane(&lanes)[width], int) {
      own = fmaxf(own, highest_of(lanes));
    });
    const float highest = over_block(own, Higher(), 2 * turn);
    const float shift = -highest * log2_of_e;
    float sum = 0;
    over_pieces(from, offset, used, [&](const Lane(&lanes)[width], int) {
      float each[width];
#pragma unroll
      for (int k = 0; k < width; ++k) {
        each[k] = power_of_two(lanes[k].value * log2_of_e + shift);
      }
      sum += sum_of(each);
    });
    return {highest, over_block(sum, Add(), 2 * turn + 1)};
  }

  /// In pairs, so that few operations wait for one before.
  __device__ static float highest_of(const Lane (&lanes)[width]) {
    float highest[width];
#pragma unroll
    for (int k = 0; k < width; ++k) {
      highest[k] = lanes[k].value;
    }
#pragma unroll
    for (int step = width / 2; step > 0; step /= 2) {
#pragma unroll
      for (int k = 0; k < step; ++k) {
        highest[k] = fmaxf(highest[k], highest[k + step]);
      }
    }
    return highest[0];
  }
  __device__ static float sum_of(float (&values)[width]) {
#pragma unroll
    for (int step = width / 2; step > 0; step /= 2) {
#pragma unroll
      for (int k = 0; k < step; ++k) {
        values[k] += values[k + step];
      }
    }
    return values[0];
  }

  /// Writes weight * (softmax - [column == label]) over the scores.
  __device__ void write_gradients(
      const void* from,
      std::int64_t offset,
      int label,
      float log_sum,
      float weight) const {
    if (weight == 0) { // whatever the scores are
      write_zeros();
      return;
    }
    const float shift = -log_sum * log2_of_e;
    over_pieces(from, offset, columns, [&](Lane(&lanes)[width], int column) {
      const bool with_label = label >= column && label < column + width;
#pragma unroll
      for (int k = 0; k < width; ++k) {
        lanes[k].value =
            weight * power_of_two(lanes[k].value * log2_of_e + shift);
      }
      if (with_label) {
#pragma unroll
        for (int k = 0; k < width; ++k) {
          lanes[k].value -= column + k == label ? weight : 0;
        }
      }
      store(lanes, scores, element, begin + column);
    });
  }

  __device__ void write_zeros() const {
    Lane zeros[width];
#pragma unroll
    for (int k = 0; k < width; ++k) {
      zeros[k].value = 0;
    }
    for (int column = static_cast<int>(threadIdx.x) * width; column < columns;
         column += static_cast<int>(blockDim.x) * width) {
      store(zeros, scores, element, begin + column);
    }
  }

  /// The score of a column that is_mine().
  __device__ static float score_at(
      const void* from,
      std::int64_t offset,
      int column) {
    Lane lanes[1];
    load(from, element, offset + column, lanes);
    return lanes[0].value;
  }
};

/// A label as a number of a column; -1 where this rank does not have it.
__device__ int column_of(std::int64_t label, std::int64_t used) {
  return label >= 0 && label < used ? static_cast<int>(label) : -1;
}

template <Element element, int width>
__global__ void __launch_bounds__(most_threads, 1) sum_scores_kernel(
    ScoreRows rows,
    const std::int64_t* labels,
    RowSums sums) {
  const std::int64_t i = blockIdx.x;
  const Row<element, width> row(rows, i);
  const int label = column_of(labels[i], rows.used);
  const Pair all = row.exponentials(row.scores, row.begin, 0);
  if (threadIdx.x == 0) {
    sums.highest[i] = all.first;
    sums.sum[i] = all.second;
    sums.label[i] = label < 0 ? 0 : row.score_at(row.scores, row.begin, label);
  }
}

template <Element element, int width>
__global__ void __launch_bounds__(most_threads, 1) gradients_kernel(
    ScoreRows rows,
    const std::int64_t* labels,
    const float* log_sums,
    const float* weights) {
  const std::int64_t i = blockIdx.x;
  const Row<element, width> row(rows, i);
  row.write_gradients(
      row.scores,
      row.begin,
      column_of(labels[i], rows.used),
      log_sums[i],
      weights[i]);
}

/// Cross entropy of row `i`, whose scores are at `from`.
template <Element element, int width>
__device__ void cross_entropy_of(
    const ScoreRows& rows,
    std::int64_t i,
    const void* from,
    std::int64_t offset,
    const std::int64_t* labels,
    const float* weights,
    float* losses,
    int turn) {
  const Row<element, width> row(rows, i);
  const int label = column_of(labels[i], rows.used);
  const float weight = weights == nullptr ? 0 : weights[i];
  const bool is_mine = label < 0 ? threadIdx.x == 0 : row.is_mine(label);
  const float score =
      is_mine && label >= 0 ? row.score_at(from, offset, label) : 0;
  const Pair all = row.exponentials(from, offset, turn);
  const float log_sum = all.first + logf(all.second);
  if (is_mine) {
    losses[i] = log_sum - score;
  }
  if (weights != nullptr) {
    row.write_gradients(from, offset, label, log_sum, weight);
  }
}

/// A block has one row, and reads it twice.
template <Element element, int width>
__global__ void __launch_bounds__(most_threads, 1) cross_entropy_kernel(
    ScoreRows rows,
    const std::int64_t* labels,
    const float* weights,
    float* losses) {
  const std::int64_t i = blockIdx.x;
  cross_entropy_of<element, width>(
      rows,
      i,
      rows.scores,
      i * rows.columns,
      labels,
      weights,
      losses,
      0);
}

/// Begins to copy this thread's pieces of row `i`, if there is one, to
/// `memory`.
template <Element element>
__device__ void fetch_row(
    const ScoreRows& rows,
    std::int64_t i,
    std::uint16_t* memory) {
  constexpr int width = 8;
  if (i < rows.rows) {
    const std::uint16_t* const from =
        static_cast<const std::uint16_t*>(rows.scores) + i * rows.columns;
    const int columns = static_cast<int>(rows.columns);
    for (int column = static_cast<int>(threadIdx.x) * width; column < columns;
         column += static_cast<int>(blockDim.x) * width) {
      __pipeline_memcpy_async(memory + column, from + column, 16);
    }
  }
  __pipeline_commit();
}

/// A block takes every `gridDim.x`-th row of 16-bit scores and has two of them
/// in shared memory: the one that it works on and the next, which arrives
/// meanwhile. Each is read once.
template <Element element>
__global__ void __launch_bounds__(most_threads, 1) cross_entropy_ahead_kernel(
    ScoreRows rows,
    const std::int64_t* labels,
    const float* weights,
    float* losses) {
  auto* const memory = reinterpret_cast<std::uint16_t*>(shared_memory());
  int turn = 0;
  fetch_row<element>(rows, blockIdx.x, memory);
  for (std::int64_t i = blockIdx.x; i < rows.rows; i += gridDim.x, ++turn) {
    fetch_row<element>(
        rows,
        i + gridDim.x,
        memory + ((turn + 1) % 2) * rows.columns);
    __pipeline_wait_prior(1);
    cross_entropy_of<element, 8>(
        rows,
        i,
        memory,
        (turn % 2) * rows.columns,
        labels,
        weights,
        losses,
        turn);
  }
}

/// Threads for a row, so that all have about the same number of pieces.
int threads_of(const ScoreRows& rows, int width) {
  const std::int64_t pieces = (rows.columns + width - 1) / width;
  const std::int64_t turns = (pieces + most_threads - 1) / most_threads;
  return threads_for(pieces / turns + (pieces % turns != 0), most_threads);
}

/// Calls `start` with the element type and with how many elements a thread
/// takes at a time, both as constants of the compiler's, and with the grid of
/// a block for each row.
template <class Start>
const char* over_rows(const ScoreRows& rows, const Start& start) {
  if (rows.rows <= 0) {
    return nullptr;
  }
  const bool eights = rows.columns % 8 == 0 && aligned_for_eight(rows.scores);
  const char* failure = nullptr;
  with_element(rows.element, [&](auto element) {
    const auto with_width = [&](auto width) {
      failure = start(
          element,
          width,
          Grid{
              static_cast<unsigned>(rows.rows),
              static_cast<unsigned>(threads_of(rows, width()))});
    };
    if (eights) {
      with_width(std::integral_constant<int, 8>());
    } else {
      with_width(std::integral_constant<int, 1>());
    }
  });
  return failure;
}

} // namespace

const char* sum_scores(
    const ScoreRows& scores,
    const std::int64_t* labels,
    const RowSums& sums,
    void* stream) {
  return over_rows(scores, [&](auto element, auto width, const Grid& grid) {
    return launch(
        sum_scores_kernel<element(), width()>,
        grid,
        stream,
        scores,
        labels,
        sums);
  });
}

const char* scores_to_gradients(
    const ScoreRows& scores,
    const std::int64_t* labels,
    const float* log_sums,
    const float* weights,
    void* stream) {
  return over_rows(scores, [&](auto element, auto width, const Grid& grid) {
    return launch(
        gradients_kernel<element(), width()>,
        grid,
        stream,
        scores,
        labels,
        log_sums,
        weights);
  });
}

const char* cross_entropy(
    const ScoreRows& scores,
    const std::int64_t* labels,
    const float* weights,
    float* losses,
    void* stream) {
  return over_rows(
      scores,
      [&](auto element, auto width, Grid grid) -> const char* {
        if constexpr (element() != Element::fp32 && width() == 8) {
          const std::size_t two_rows = 4 * scores.columns;
          if (two_rows + 1024 <= most_shared_bytes()) { // 1024: over_block()'s
            const auto kernel = cross_entropy_ahead_kernel<element()>;
            const auto threads = static_cast<int>(grid.threads.x);
            grid.shared_bytes = two_rows;
            grid.blocks = std::min(
                grid.blocks.x,
                blocks_at_once(kernel, threads, two_rows));
            return launch(
                kernel,
                grid,
                stream,
                scores,
                labels,
                weights,
                losses);
          }
        }
        return launch(
            cross_entropy_kernel<element(), width()>,
            grid,
            stream,
            scores,
            labels,
            weights,
            losses);
      });
}

} // namespace cairn::kernels::cuda
