#pragma once

#include "kernels/cpu/product_loops.h"
#include "kernels/cpu/score_row_loops.h"
#include "kernels/internal/cpu/attention.h"

#include <algorithm>

// Scores are computed for a block of queries and all keys at a time, never for
// all queries. They stay in the cache, and memory grows only with the length of
// the sequence.

namespace cairn::kernels::cpu {
namespace { // see scalar.h

inline constexpr std::int64_t block_queries = 64;

/// The queries of a block, and the number of keys that the last one sees.
struct Block {
  std::int64_t first = 0;
  std::int64_t queries = 0;
  std::int64_t keys = 0;
};

inline Block block_at(const HeadShape& shape, std::int64_t first) {
  const std::int64_t queries = std::min(block_queries, shape.queries - first);
  return {
      first,
      queries,
      shape.causal ? std::min(shape.keys, first + queries) : shape.keys};
}

inline std::int64_t seen_by(
    const HeadShape& shape,
    const Block& block,
    std::int64_t i) {
  return shape.causal ? std::min(block.keys, block.first + i + 1) : block.keys;
}

inline Matrix rows(HeadRows<const float> x, std::int64_t first = 0) {
  return {x.data + first * x.step, x.step, 1};
}

inline Matrix transposed(const Matrix& x) {
  return {x.data, x.column_step, x.row_step};
}

inline Causal causal(
    const HeadShape& shape,
    const Block& block,
    Causal::Part part) {
  return {shape.causal ? part : Causal::Part::none, block.first};
}

template <class Inner>
void multiply_all(
    const ProductShape& shape,
    const Matrix& left,
    const Matrix& right,
    const ProductResult& result,
    const Causal& causal) {
  multiply_matrices<Inner>(
      shape,
      {0, shape.rows, 0, shape.columns},
      left,
      right,
      result,
      causal);
}

/// into[queries][keys] = left x transposed right, for the keys that are seen.
template <class Inner>
void products_of_rows(
    const HeadShape& shape,
    const Block& block,
    const Matrix& left,
    const Matrix& right,
    float* into) {
  multiply_all<Inner>(
      {block.queries, block.keys, shape.size},
      left,
      transposed(right),
      {.data = into, .row_step = block.keys},
      causal(shape, block, Causal::Part::scores));
}

/// The sum of the products of two rows.
template <class V>
float dot(const float* a, const float* b, std::int64_t count) {
  V sum(0.0F);
  std::int64_t i = 0;
  for (; i + V::width <= count; i += V::width) {
    sum = fma(V::load(a + i), V::load(b + i), sum);
  }
  float total = sum.sum();
  for (; i < count; ++i) {
    total += a[i] * b[i];
  }
  return total;
}

template <class V, class Inner>
void attend_to_keys(
    const HeadShape& shape,
    const HeadInput& input,
    HeadRows<float> output,
    float* log_sum) {
  float* const scores =
      thread_memory(ThreadMemory::scores, block_queries * shape.keys);
  for (std::int64_t q = 0; q < shape.queries; q += block_queries) {
    const Block block = block_at(shape, q);
    products_of_rows<Inner>(
        shape,
        block,
        rows(input.query, q),
        rows(input.key),
        scores);
    float factor[block_queries];
    for (std::int64_t i = 0; i < block.queries; ++i) {
      float* const row = scores + i * block.keys;
      const std::int64_t seen = seen_by(shape, block, i);
      const float shift = shape.scale * highest_of_row<V>(row, seen);
      const float sum =
          row_exponentials<V>(row, seen, block.keys, shape.scale, shift);
      factor[i] = 1 / sum;
      log_sum[q + i] = shift + __builtin_logf(sum);
    }
    multiply_all<Inner>(
        {block.queries, shape.size, block.keys},
        {scores, block.keys, 1},
        rows(input.value),
        {.data = output.data + q * output.step, .row_step = output.step},
        causal(shape, block, Causal::Part::left));
    for (std::int64_t i = 0; i < block.queries; ++i) {
      float* const row = output.data + (q + i) * output.step;
      for (std::int64_t j = 0; j < shape.size; ++j) {
        row[j] *= factor[i];
      }
    }
  }
}

template <class V, class Inner>
void attend_to_keys_backward(
    const HeadShape& shape,
    const HeadInput& input,
    HeadRows<const float> output,
    HeadRows<const float> output_gradient,
    const float* log_sum,
    const HeadGradients& gradients) {
  float* const shares =
      thread_memory(ThreadMemory::scores, 2 * block_queries * shape.keys);
  float* const score_gradients = shares + block_queries * shape.keys;
  for (std::int64_t q = 0; q < shape.queries; q += block_queries) {
    const Block block = block_at(shape, q);
    const Matrix query = rows(input.query, q);
    const Matrix outer = rows(output_gradient, q);
    products_of_rows<Inner>(shape, block, query, rows(input.key), shares);
    products_of_rows<Inner>(
        shape,
        block,
        outer,
        rows(input.value),
        score_gradients);
    for (std::int64_t i = 0; i < block.queries; ++i) {
      float* const share = shares + i * block.keys;
      float* const gradient = score_gradients + i * block.keys;
      const std::int64_t seen = seen_by(shape, block, i);
      row_exponentials<V>(share, seen, block.keys, shape.scale, log_sum[q + i]);
      const float mean = dot<V>(
          output.data + (q + i) * output.step,
          output_gradient.data + (q + i) * output_gradient.step,
          shape.size);
      for (std::int64_t j = 0; j < seen; ++j) {
        gradient[j] = share[j] * (gradient[j] - mean) * shape.scale;
      }
      __builtin_memset(gradient + seen, 0, (block.keys - seen) * sizeof(float));
    }
    const Matrix of_scores{score_gradients, block.keys, 1};
    multiply_all<Inner>(
        {block.queries, shape.size, block.keys},
        of_scores,
        rows(input.key),
        {.data = gradients.query.data + q * gradients.query.step,
         .row_step = gradients.query.step},
        causal(shape, block, Causal::Part::left));
    multiply_all<Inner>(
        {block.keys, shape.size, block.queries},
        transposed(of_scores),
        query,
        {.data = gradients.key.data,
         .row_step = gradients.key.step,
         .add = true},
        causal(shape, block, Causal::Part::left_turned));
    multiply_all<Inner>(
        {block.keys, shape.size, block.queries},
        transposed({shares, block.keys, 1}),
        outer,
        {.data = gradients.value.data,
         .row_step = gradients.value.step,
         .add = true},
        causal(shape, block, Causal::Part::left_turned));
  }
}

} // namespace
} // namespace cairn::kernels::cpu
