#include "kernels/cpu/avx2.h"
#include "kernels/cpu/product_functions.h"
#include "kernels/cpu/product_inner_x86.h"

namespace cairn::kernels::cpu {
namespace {

/// Four rows of three vectors: 12 sums of the 16 registers.
struct Inner : VectorInner<Avx2, 4, 3> {
  static constexpr std::int64_t block_rows = 128;
  static constexpr std::int64_t block_columns = 768;
  static constexpr std::int64_t block_depth = 256;
};

} // namespace

const ProductTable avx2_products = products_for<Avx2, Inner>("avx2");

} // namespace cairn::kernels::cpu
