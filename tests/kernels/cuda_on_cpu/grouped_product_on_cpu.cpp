// The stand-in for a GPU has no products of groups: their instructions are one
// GPU's own. Callers use libtorch's.
#include "kernels/internal/cuda/grouped_product.h"

namespace cairn::kernels::cuda {
namespace {

constexpr const char* missing = "no product of groups is taken here";

} // namespace

bool has_grouped_products() {
  return false;
}

bool takes(const RowsProduct&) {
  return false;
}

bool takes(const WeightsProduct&) {
  return false;
}

const char* multiply(const RowsProduct&, void*) {
  return missing;
}

const char* multiply(const WeightsProduct&, void*) {
  return missing;
}

std::int64_t product_parts(const ProductGroups&) {
  return 0;
}

const char* sum_product_parts(
    const ProductGroups&,
    std::int64_t,
    const float*,
    void*,
    Element,
    void*) {
  return missing;
}

} // namespace cairn::kernels::cuda
