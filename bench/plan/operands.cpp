#include "plan/operands.h"

#include <ATen/ops/empty.h>

namespace {

/// The next `count` elements of a memory, at a multiple of 128 of them.
at::Tensor take(
    const at::Tensor& memory,
    std::int64_t count,
    std::int64_t& used) {
  if (used + count > memory.numel()) {
    used = 0;
  }
  const at::Tensor taken = memory.narrow(0, used, count);
  used += (count + 127) / 128 * 128;
  return taken;
}

} // namespace

Operands::Operands(at::Device device, std::int64_t bytes)
    : wide_(at::empty(
          {bytes / 2},
          at::TensorOptions(device).dtype(at::kBFloat16))) {
  wide_.normal_();
  narrow_ = wide_.to(at::kFloat8_e4m3fn);
}

at::Tensor Operands::next(
    std::int64_t rows,
    std::int64_t columns,
    at::ScalarType type) {
  const bool wide = type == at::kBFloat16;
  const at::Tensor taken = wide ? take(wide_, rows * columns, used_wide_)
                                : take(narrow_, rows * columns, used_narrow_);
  const at::Tensor matrix = taken.view({rows, columns});
  return wide ? matrix : matrix.view(type);
}
