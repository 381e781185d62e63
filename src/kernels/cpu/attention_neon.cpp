#include "kernels/cpu/exp_neon.h"
#include "kernels/internal/cpu/attention.h"
#include "kernels/internal/cpu/matrix_product.h"
#include "kernels/internal/cpu/score_row.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

// Scores are computed for a block of queries and all keys at a time, never for
// all queries. They stay in the cache, and memory grows only with the length of
// the sequence.

namespace cairn::kernels::cpu {
namespace {

constexpr std::int64_t block_queries = 64;

/// The queries of a block, and the number of keys that the last one sees.
struct Block {
  std::int64_t first = 0;
  std::int64_t queries = 0;
  std::int64_t keys = 0;
};

Block block_at(const HeadShape& shape, std::int64_t first) {
  const std::int64_t queries = std::min(block_queries, shape.queries - first);
  return {
      first,
      queries,
      shape.causal ? std::min(shape.keys, first + queries) : shape.keys};
}

std::int64_t seen_by(
    const HeadShape& shape,
    const Block& block,
    std::int64_t i) {
  return shape.causal ? std::min(block.keys, block.first + i + 1) : block.keys;
}

Matrix rows(HeadRows<const float> x, std::int64_t first = 0) {
  return {x.data + first * x.step, x.step, 1};
}

Matrix transposed(const Matrix& x) {
  return {x.data, x.column_step, x.row_step};
}

Causal causal(const HeadShape& shape, const Block& block, Causal::Part part) {
  return {shape.causal ? part : Causal::Part::none, block.first};
}

void multiply_all(
    const ProductShape& shape,
    const Matrix& left,
    const Matrix& right,
    const ProductResult& result,
    const Causal& causal) {
  multiply(
      shape,
      {0, shape.rows, 0, shape.columns},
      left,
      right,
      result,
      causal);
}

/// into[queries][keys] = left x transposed right, for the keys that are seen.
void products_of_rows(
    const HeadShape& shape,
    const Block& block,
    const Matrix& left,
    const Matrix& right,
    float* into) {
  multiply_all(
      {block.queries, block.keys, shape.size},
      left,
      transposed(right),
      {.data = into, .row_step = block.keys},
      causal(shape, block, Causal::Part::scores));
}

float dot(const float* a, const float* b, std::int64_t count) {
  float32x4_t sum = vdupq_n_f32(0);
  std::int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    sum = vfmaq_f32(sum, vld1q_f32(a + i), vld1q_f32(b + i));
  }
  float total = vaddvq_f32(sum);
  for (; i < count; ++i) {
    total += a[i] * b[i];
  }
  return total;
}

/// Memory for scores, which each thread keeps from one head to the next.
float* score_memory(std::int64_t floats) {
  thread_local std::vector<float> memory;
  if (static_cast<std::int64_t>(memory.size()) < floats) {
    memory.resize(floats);
  }
  return memory.data();
}

} // namespace

void attend_head(
    const HeadShape& shape,
    const HeadInput& input,
    HeadRows<float> output,
    float* log_sum) {
  float* const scores = score_memory(block_queries * shape.keys);
  for (std::int64_t q = 0; q < shape.queries; q += block_queries) {
    const Block block = block_at(shape, q);
    products_of_rows(
        shape,
        block,
        rows(input.query, q),
        rows(input.key),
        scores);
    float factor[block_queries];
    for (std::int64_t i = 0; i < block.queries; ++i) {
      float* const row = scores + i * block.keys;
      const std::int64_t seen = seen_by(shape, block, i);
      const float shift = shape.scale * highest_of(row, seen);
      const float sum = exponentials(row, seen, block.keys, shape.scale, shift);
      factor[i] = 1 / sum;
      log_sum[q + i] = shift + std::log(sum);
    }
    multiply_all(
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

void attend_head_backward(
    const HeadShape& shape,
    const HeadInput& input,
    HeadRows<const float> output,
    HeadRows<const float> output_gradient,
    const float* log_sum,
    const HeadGradients& gradients) {
  float* const shares = score_memory(2 * block_queries * shape.keys);
  float* const score_gradients = shares + block_queries * shape.keys;
  for (std::int64_t q = 0; q < shape.queries; q += block_queries) {
    const Block block = block_at(shape, q);
    const Matrix query = rows(input.query, q);
    const Matrix outer = rows(output_gradient, q);
    products_of_rows(shape, block, query, rows(input.key), shares);
    products_of_rows(shape, block, outer, rows(input.value), score_gradients);
    for (std::int64_t i = 0; i < block.queries; ++i) {
      float* const share = shares + i * block.keys;
      float* const gradient = score_gradients + i * block.keys;
      const std::int64_t seen = seen_by(shape, block, i);
      exponentials(share, seen, block.keys, shape.scale, log_sum[q + i]);
      const float mean =
          dot(output.data + (q + i) * output.step,
              output_gradient.data + (q + i) * output_gradient.step,
              shape.size);
      for (std::int64_t j = 0; j < seen; ++j) {
        gradient[j] = share[j] * (gradient[j] - mean) * shape.scale;
      }
      std::fill(gradient + seen, gradient + block.keys, 0.0F);
    }
    const Matrix of_scores{score_gradients, block.keys, 1};
    multiply_all(
        {block.queries, shape.size, block.keys},
        of_scores,
        rows(input.key),
        {.data = gradients.query.data + q * gradients.query.step,
         .row_step = gradients.query.step},
        causal(shape, block, Causal::Part::left));
    multiply_all(
        {block.keys, shape.size, block.queries},
        transposed(of_scores),
        query,
        {.data = gradients.key.data,
         .row_step = gradients.key.step,
         .add = true},
        causal(shape, block, Causal::Part::left_turned));
    multiply_all(
        {block.keys, shape.size, block.queries},
        transposed({shares, block.keys, 1}),
        outer,
        {.data = gradients.value.data,
         .row_step = gradients.value.step,
         .add = true},
        causal(shape, block, Causal::Part::left_turned));
  }
}

} // namespace cairn::kernels::cpu
