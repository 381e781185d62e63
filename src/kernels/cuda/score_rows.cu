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

/// Below all scores, and finite in all that follows: a rank may have nothing
/// but padding.
constexpr float lowest = -FLT_MAX / 4;

/// Joins sums of exponentials: `first` is the highest score of each, `second`
/// the sum of e^(score - highest).
struct JoinExponentials {
  template <class Value>
  static __device__ Value none() {
    return {lowest, 0};
  }
  __device__ Pair operator()(Pair a, Pair b) const {
    const float highest = fmaxf(a.first, b.first);
    // Differences first: they are exactly zero where nothing was summed yet.
    return {
        highest,
        a.second * power_of_two((a.first - highest) * log2_of_e) +
            b.second * power_of_two((b.first - highest) * log2_of_e)};
  }
};

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
  /// before column `end`.
  template <class Work>
  __device__ void over_pieces(int end, const Work& work) const {
    const int stride = static_cast<int>(blockDim.x) * width;
    for (int first = static_cast<int>(threadIdx.x) * width; first < end;
         first += stride * pieces_at_once) {
      Lane lanes[pieces_at_once][width];
#pragma unroll
      for (int i = 0; i < pieces_at_once; ++i) {
        if (first + i * stride < end) {
          load(scores, element, begin + first + i * stride, lanes[i]);
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

  /// The row's highest score and its sum of exponentials. All threads of the
  /// block call it.
  __device__ Pair exponentials() const {
    Pair own = JoinExponentials::none<Pair>();
    over_pieces(used, [&](const Lane(&lanes)[width], int) {
      const float highest = fmaxf(own.first, highest_of(lanes));
      const float shift = -highest * log2_of_e;
      own = {
          highest,
          own.second * power_of_two((own.first - highest) * log2_of_e) +
              sum_of_exponentials(lanes, shift)};
    });
    return over_block(own, JoinExponentials(), 0);
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
  __device__ static float sum_of_exponentials(
      const Lane (&lanes)[width],
      float shift) {
    float each[width];
#pragma unroll
    for (int k = 0; k < width; ++k) {
      each[k] = power_of_two(lanes[k].value * log2_of_e + shift);
    }
#pragma unroll
    for (int step = width / 2; step > 0; step /= 2) {
#pragma unroll
      for (int k = 0; k < step; ++k) {
        each[k] += each[k + step];
      }
    }
    return each[0];
  }

  /// Turns the scores of a piece into weight * (softmax - [column == label])
  /// and writes them. `shift` is minus the logarithm, to base 2, of the sum of
  /// exponentials.
  __device__ void write_gradients(
      Lane (&lanes)[width],
      int column,
      int label,
      float shift,
      float weight) const {
#pragma unroll
    for (int k = 0; k < width; ++k) {
      lanes[k].value =
          weight * power_of_two(lanes[k].value * log2_of_e + shift);
    }
    if (label >= column && label < column + width) {
#pragma unroll
      for (int k = 0; k < width; ++k) {
        lanes[k].value -= column + k == label ? weight : 0;
      }
    }
    store(lanes, scores, element, begin + column);
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
  __device__ float score_at(int column) const {
    Lane lanes[1];
    load(scores, element, begin + column, lanes);
    return lanes[0].value;
  }
};

/// Writes the gradients of a row, whose scores `pieces` has: the row itself, or
/// the registers that hold it.
template <class Row, class Pieces>
__device__ void write_all_gradients(
    const Row& row,
    const Pieces& pieces,
    int label,
    float log_sum,
    float weight) {
  if (weight == 0) { // whatever the scores are
    row.write_zeros();
    return;
  }
  const float shift = -log_sum * log2_of_e;
  pieces.over_pieces(row.columns, [&](auto& lanes, int column) {
    row.write_gradients(lanes, column, label, shift, weight);
  });
}

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
  const Pair all = row.exponentials();
  if (threadIdx.x == 0) {
    sums.highest[i] = all.first;
    sums.sum[i] = all.second;
    sums.label[i] = label < 0 ? 0 : row.score_at(label);
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
  write_all_gradients(
      row,
      row,
      column_of(labels[i], rows.used),
      log_sums[i],
      weights[i]);
}

/// True in the thread that writes the loss of a row.
template <class Row>
__device__ bool writes_loss(int label) {
  return label < 0 ? threadIdx.x == 0 : Row::is_mine(label);
}

/// A block has one row, and reads it twice.
template <Element element, int width>
__global__ void __launch_bounds__(most_threads, 1) cross_entropy_kernel(
    ScoreRows rows,
    const std::int64_t* labels,
    const float* weights,
    float* losses) {
  const std::int64_t i = blockIdx.x;
  const Row<element, width> row(rows, i);
  const int label = column_of(labels[i], rows.used);
  const Pair all = row.exponentials();
  const float log_sum = all.first + logf(all.second);
  if (writes_loss<Row<element, width>>(label)) {
    losses[i] = log_sum - (label < 0 ? 0 : row.score_at(label));
  }
  if (weights != nullptr) {
    write_all_gradients(row, row, label, log_sum, weights[i]);
  }
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

/// A thread's part of a row of 16-bit scores, in registers.
template <Element element, int pieces>
struct HeldRow {
  static constexpr int width = 8;
  using WholeRow = Row<element, width>;

  const WholeRow& row;
  uint4 bits[pieces];

  /// Reads this thread's pieces from a copy of the row.
  __device__ HeldRow(const WholeRow& whole, const std::uint16_t* copy)
      : row(whole) {
    over_columns(row.columns, [&](int i, int column) {
      bits[i] = *reinterpret_cast<const uint4*>(copy + column);
    });
  }

  template <class Work>
  __device__ void over_columns(int end, const Work& work) const {
#pragma unroll
    for (int i = 0; i < pieces; ++i) {
      const int column =
          (i * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x)) *
          width;
      if (column < end) {
        work(i, column);
      }
    }
  }

  template <class Work>
  __device__ void over_pieces(int end, const Work& work) const {
    over_columns(end, [&](int i, int column) {
      Lane lanes[width];
      load(&bits[i], element, 0, lanes);
      row.hide_padding(lanes, column);
      work(lanes, column);
    });
  }

  __device__ Pair exponentials(int turn) const {
    Pair own = JoinExponentials::none<Pair>();
    over_pieces(row.used, [&](const Lane(&lanes)[width], int) {
      own.first = fmaxf(own.first, WholeRow::highest_of(lanes));
    });
    const float shift = -own.first * log2_of_e;
    over_pieces(row.used, [&](const Lane(&lanes)[width], int) {
      own.second += WholeRow::sum_of_exponentials(lanes, shift);
    });
    return over_block(own, JoinExponentials(), turn);
  }
};

/// A block takes every `gridDim.x`-th row of 16-bit scores. It reads each once,
/// and has the next one on its way to shared memory while it works.
template <Element element, int pieces>
__global__ void __launch_bounds__(most_threads, 1) cross_entropy_ahead_kernel(
    ScoreRows rows,
    const std::int64_t* labels,
    const float* weights,
    float* losses) {
  auto* const memory = reinterpret_cast<std::uint16_t*>(shared_memory());
  const auto buffer = [&](int turn) {
    return memory + turn % 2 * rows.columns;
  };
  int turn = 0;
  fetch_row<element>(rows, blockIdx.x, buffer(0));
  for (std::int64_t i = blockIdx.x; i < rows.rows; i += gridDim.x, ++turn) {
    fetch_row<element>(rows, i + gridDim.x, buffer(turn + 1));
    const int label = column_of(labels[i], rows.used);
    const float weight = weights == nullptr ? 0 : weights[i];
    __pipeline_wait_prior(1);
    const Row<element, 8> row(rows, i);
    const HeldRow<element, pieces> held(row, buffer(turn));
    const Pair all = held.exponentials(turn);
    const float log_sum = all.first + logf(all.second);
    if (writes_loss<Row<element, 8>>(label)) {
      Lane score[1];
      score[0].value = 0;
      if (label >= 0) {
        load(buffer(turn), element, label, score);
      }
      losses[i] = log_sum - score[0].value;
    }
    if (weights != nullptr) {
      write_all_gradients(row, held, label, log_sum, weight);
    }
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
  if (rows.rows <= 0 || rows.columns <= 0) {
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
          constexpr int most_pieces = 7; // as many as memory for two rows
          constexpr int few_pieces = 4;
          if (two_rows + shared_reserve <= most_shared_bytes() &&
              scores.columns <= most_pieces * 8 * most_threads) {
            const bool few = scores.columns <= few_pieces * 8 * grid.threads.x;
            const auto kernel = few
                ? cross_entropy_ahead_kernel<element(), few_pieces>
                : cross_entropy_ahead_kernel<element(), most_pieces>;
            grid.shared_bytes = two_rows;
            grid.blocks = std::min(
                grid.blocks.x,
                blocks_at_once(
                    kernel,
                    static_cast<int>(grid.threads.x),
                    two_rows));
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
