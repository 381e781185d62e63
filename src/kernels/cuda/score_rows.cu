#include "kernels/internal/cuda/score_rows.h"

#include <cfloat>

#include "kernels/cuda/block.cuh"
#include "kernels/cuda/for_each.cuh"

namespace cairn::kernels::cuda {
namespace {

/// Threads of the block that works on a row. Two such blocks fill a processor,
/// and the rows of all processors fit into the second-level cache.
constexpr int row_threads = 1024;

/// Joins sums of exponentials: `first` is the highest score of each, `second`
/// the sum of e^(score - highest).
struct JoinExponentials {
  /// Finite, also where a rank has nothing but padding.
  static __device__ Pair none() { return {-FLT_MAX, 0}; }
  __device__ Pair operator()(Pair a, Pair b) const {
    const float highest = fmaxf(a.first, b.first);
    return {
        highest,
        a.second * __expf(a.first - highest) +
            b.second * __expf(b.first - highest)};
  }
};

/// One row of the scores.
struct Row {
  void* scores;
  std::int64_t begin;
  std::int64_t columns;
  std::int64_t used;
};

__device__ Row row_of(const ScoreRows& rows, std::int64_t i) {
  return {rows.scores, i * rows.columns, rows.columns, rows.used};
}

/// The highest score of a row and its sum of exponentials. All threads of the
/// block call it.
template <Element element, int width>
__device__ Pair exponentials(const Row& row) {
  Pair own = JoinExponentials::none();
  for (std::int64_t j = static_cast<std::int64_t>(threadIdx.x) * width;
       j < row.used;
       j += row_threads * width) {
    Lane lanes[width];
    load(row.scores, element, row.begin + j, lanes);
    float highest = own.first;
#pragma unroll
    for (int k = 0; k < width; ++k) {
      highest = j + k < row.used ? fmaxf(highest, lanes[k].value) : highest;
    }
    float sum = own.second * __expf(own.first - highest);
#pragma unroll
    for (int k = 0; k < width; ++k) {
      sum += j + k < row.used ? __expf(lanes[k].value - highest) : 0;
    }
    own = {highest, sum};
  }
  return over_block(own, JoinExponentials(), 0);
}

template <Element element>
__device__ float score_at(const Row& row, std::int64_t column) {
  if (column < 0 || column >= row.used) {
    return 0;
  }
  Lane lanes[1];
  load(row.scores, element, row.begin + column, lanes);
  return lanes[0].value;
}

template <Element element, int width>
__device__ void write_gradients(
    const Row& row,
    std::int64_t label,
    float log_sum,
    float weight) {
  for (std::int64_t j = static_cast<std::int64_t>(threadIdx.x) * width;
       j < row.columns;
       j += row_threads * width) {
    Lane lanes[width];
    if (weight != 0) {
      load(row.scores, element, row.begin + j, lanes);
    }
#pragma unroll
    for (int k = 0; k < width; ++k) {
      const float target = j + k == label ? 1 : 0;
      const bool counts = weight != 0 && j + k < row.used;
      lanes[k].value =
          counts ? weight * (__expf(lanes[k].value - log_sum) - target) : 0;
    }
    store(lanes, row.scores, element, row.begin + j);
  }
}

template <Element element, int width>
__global__ void __launch_bounds__(row_threads, 2) sum_scores_kernel(
    ScoreRows rows,
    const std::int64_t* labels,
    RowSums sums) {
  const std::int64_t i = blockIdx.x;
  const Row row = row_of(rows, i);
  const Pair all = exponentials<element, width>(row);
  if (threadIdx.x == 0) {
    sums.highest[i] = all.first;
    sums.sum[i] = all.second;
    sums.label[i] = score_at<element>(row, labels[i]);
  }
}

template <Element element, int width>
__global__ void __launch_bounds__(row_threads, 2) gradients_kernel(
    ScoreRows rows,
    const std::int64_t* labels,
    const float* log_sums,
    const float* weights) {
  const std::int64_t i = blockIdx.x;
  write_gradients<element, width>(
      row_of(rows, i),
      labels[i],
      log_sums[i],
      weights[i]);
}

template <Element element, int width>
__global__ void __launch_bounds__(row_threads, 2) cross_entropy_kernel(
    ScoreRows rows,
    const std::int64_t* labels,
    const float* weights,
    float* losses) {
  const std::int64_t i = blockIdx.x;
  const Row row = row_of(rows, i);
  const std::int64_t label = labels[i];
  // Read before the barrier in exponentials(), after which scores change.
  const float score = threadIdx.x == 0 ? score_at<element>(row, label) : 0;
  const Pair all = exponentials<element, width>(row);
  const float log_sum = all.first + logf(all.second);
  if (threadIdx.x == 0) {
    losses[i] = log_sum - score;
  }
  if (weights != nullptr) {
    write_gradients<element, width>(row, label, log_sum, weights[i]);
  }
}

/// Calls `start` with the element type and with how many elements a thread
/// takes at a time, both as constants of the compiler's.
template <class Start>
const char* over_rows(const ScoreRows& rows, const Start& start) {
  if (rows.rows <= 0) {
    return nullptr;
  }
  const bool eights = rows.columns % 8 == 0 && aligned_for_eight(rows.scores);
  const char* failure = nullptr;
  with_element(rows.element, [&](auto element) {
    failure = eights ? start(element, std::integral_constant<int, 8>())
                     : start(element, std::integral_constant<int, 1>());
  });
  return failure;
}

} // namespace

const char* sum_scores(
    const ScoreRows& scores,
    const std::int64_t* labels,
    const RowSums& sums,
    void* stream) {
  return over_rows(scores, [&](auto element, auto width) {
    return launch(
        sum_scores_kernel<element(), width()>,
        static_cast<unsigned>(scores.rows),
        row_threads,
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
  return over_rows(scores, [&](auto element, auto width) {
    return launch(
        gradients_kernel<element(), width()>,
        static_cast<unsigned>(scores.rows),
        row_threads,
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
  return over_rows(scores, [&](auto element, auto width) {
    return launch(
        cross_entropy_kernel<element(), width()>,
        static_cast<unsigned>(scores.rows),
        row_threads,
        stream,
        scores,
        labels,
        weights,
        losses);
  });
}

} // namespace cairn::kernels::cuda
