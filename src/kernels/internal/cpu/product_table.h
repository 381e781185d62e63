#pragma once

#include <cstdint>
#include <vector>

#include "kernels/internal/cpu/attention.h"
#include "kernels/internal/cpu/gelu.h"
#include "kernels/internal/cpu/matrix_product.h"

namespace cairn::kernels::cpu {

/// Products of matrices and what is built on them, compiled for one instruction
/// set. The functions are those of matrix_product.h, attention.h, gelu.h and
/// score_row.h.
struct ProductTable {
  const char* name;
  std::int64_t tile_rows;
  std::int64_t tile_columns;
  decltype(&cpu::multiply) multiply;
  decltype(&cpu::attend_head) attend_head;
  decltype(&cpu::attend_head_backward) attend_head_backward;
  decltype(&cpu::gelu) gelu;
  float (*highest_of)(const float*, std::int64_t);
  float (*exponentials)(float*, std::int64_t, std::int64_t, float, float);
};

// Each has its own file; only those of this architecture exist.
extern const ProductTable neon_products;
extern const ProductTable avx2_products;
extern const ProductTable avx512_products;

/// The tables that this machine can run, the fastest last; there may be none.
std::vector<const ProductTable*> runnable_product_tables();

/// The fastest of them; only where has_matrix_product().
const ProductTable& product_table();

/// What a thread keeps from one product to the next: allocating it each time
/// costs as much as a small product.
enum class ThreadMemory { blocks, scores };

float* thread_memory(ThreadMemory use, std::int64_t floats);

} // namespace cairn::kernels::cpu
