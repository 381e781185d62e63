#include "kernels/internal/cpu/product_table.h"

#include "kernels/internal/cpu/score_row.h"

#include <algorithm>
#include <array>
#include <memory>

namespace cairn::kernels::cpu {

std::vector<const ProductTable*> runnable_product_tables() {
  std::vector<const ProductTable*> tables;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    tables.push_back(&avx2_products);
  }
  if (__builtin_cpu_supports("avx512f")) {
    tables.push_back(&avx512_products);
  }
#elif defined(__aarch64__)
  tables.push_back(&neon_products); // every aarch64 CPU has it
#endif
  return tables;
}

bool has_matrix_product() {
  static const bool has = !runnable_product_tables().empty();
  return has;
}

const ProductTable& product_table() {
  static const ProductTable& best = *runnable_product_tables().back();
  return best;
}

float* thread_memory(ThreadMemory use, std::int64_t floats) {
  struct Memory {
    std::unique_ptr<float[]> values;
    std::int64_t floats = 0;
  };
  thread_local std::array<Memory, 2> memories;
  Memory& memory = memories[static_cast<std::size_t>(use)];
  if (memory.floats < floats) {
    memory.values.reset(); // before as much is asked for again
    memory.floats = 0;
    memory.values = std::make_unique_for_overwrite<float[]>(floats);
    memory.floats = floats;
  }
  return memory.values.get();
}

ProductPart product_part(
    const ProductShape& shape,
    std::int64_t index,
    std::int64_t count) {
  // Chooses the number of parts across that makes the longer side of a part
  // shortest.
  std::int64_t across = 1;
  const auto longest = [&](std::int64_t n) {
    return std::max(shape.columns / n, shape.rows / (count / n));
  };
  for (std::int64_t n = 2; n <= count; ++n) {
    if (count % n == 0 && longest(n) < longest(across)) {
      across = n;
    }
  }
  const auto cut =
      [](std::int64_t size, std::int64_t tile, std::int64_t i, std::int64_t n) {
        const std::int64_t tiles = (size + tile - 1) / tile;
        return std::min(size, tiles * i / n * tile);
      };
  const ProductTable& tiles = product_table();
  const std::int64_t i = index / across;
  const std::int64_t down = count / across;
  const std::int64_t j = index % across;
  ProductPart part;
  part.first_row = cut(shape.rows, tiles.tile_rows, i, down);
  part.rows = cut(shape.rows, tiles.tile_rows, i + 1, down) - part.first_row;
  part.first_column = cut(shape.columns, tiles.tile_columns, j, across);
  part.columns =
      cut(shape.columns, tiles.tile_columns, j + 1, across) - part.first_column;
  return part;
}

void multiply(
    const ProductShape& shape,
    const ProductPart& part,
    const Matrix& left,
    const Matrix& right,
    const ProductResult& result,
    const Causal& causal) {
  product_table().multiply(shape, part, left, right, result, causal);
}

void attend_head(
    const HeadShape& shape,
    const HeadInput& input,
    HeadRows<float> output,
    float* log_sum) {
  product_table().attend_head(shape, input, output, log_sum);
}

void attend_head_backward(
    const HeadShape& shape,
    const HeadInput& input,
    HeadRows<const float> output,
    HeadRows<const float> output_gradient,
    const float* log_sum,
    const HeadGradients& gradients) {
  product_table().attend_head_backward(
      shape,
      input,
      output,
      output_gradient,
      log_sum,
      gradients);
}

void gelu(
    Gelu kind,
    const float* x,
    float* y,
    float* slope,
    std::int64_t count) {
  product_table().gelu(kind, x, y, slope, count);
}

float highest_of(const float* x, std::int64_t count) {
  return product_table().highest_of(x, count);
}

float exponentials(
    float* x,
    std::int64_t seen,
    std::int64_t count,
    float scale,
    float shift) {
  return product_table().exponentials(x, seen, count, scale, shift);
}

} // namespace cairn::kernels::cpu
