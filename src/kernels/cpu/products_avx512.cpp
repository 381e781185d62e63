#include "kernels/cpu/avx512.h"
#include "kernels/cpu/product_functions.h"
#include "kernels/cpu/product_inner_x86.h"

namespace cairn::kernels::cpu {
namespace {

/// Twelve rows of two vectors: 24 sums of the 32 registers.
struct Inner : VectorInner<Avx512, 12, 2> {
  static constexpr std::int64_t block_rows = 240;
  static constexpr std::int64_t block_columns = 768;
  static constexpr std::int64_t block_depth = 256;
};

} // namespace

const ProductTable avx512_products = products_for<Avx512, Inner>("avx512");

} // namespace cairn::kernels::cpu
