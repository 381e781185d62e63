#include "nn/linear/wide_compute.h"

#include "kernels/internal/cpu/matrix_product.h"
#include "kernels/internal/cpu/table.h"

namespace cairn::nn {

bool computes_wide(const at::Tensor& x) {
  return kernels::cpu::has_matrix_product() && x.is_cpu() &&
      at::isReducedFloatingType(x.scalar_type()) &&
      !kernels::cpu::multiplies_bf16();
}

at::Tensor widened(const at::Tensor& x) {
  return x.defined() && x.is_floating_point() ? x.to(at::kFloat) : x;
}

} // namespace cairn::nn
