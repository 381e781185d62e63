#include "checkpoints/inspect/value_difference.h"

#include "checkpoints/inspect/double_portions.h"

#include <ATen/TensorOperators.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace cairn::checkpoints {

namespace {

bool same_bytes(const at::Tensor& one, const at::Tensor& other) {
  return one.scalar_type() == other.scalar_type() &&
      (one.numel() == 0 ||
       std::memcmp(
           one.const_data_ptr(),
           other.const_data_ptr(),
           one.nbytes()) == 0);
}

/// True for integers that a double cannot tell apart.
bool are_wide_integers(const at::Tensor& one, const at::Tensor& other) {
  return one.scalar_type() == other.scalar_type() &&
      c10::isIntegralType(one.scalar_type(), false) && one.element_size() == 8;
}

} // namespace

ValueDifference compare_values(
    const at::Tensor& one,
    const at::Tensor& other,
    double tolerance) {
  const at::Tensor a = flat_reals(one);
  const at::Tensor b = flat_reals(other);
  ValueDifference result{.elements = a.numel()};
  if (same_bytes(a, b)) {
    return result;
  }
  const bool wide = are_wide_integers(a, b);
  double difference_squares = 0;
  double squares = 0;
  for_each_portion(a.numel(), [&](std::int64_t begin, std::int64_t count) {
    const at::Tensor from = a.narrow(0, begin, count);
    const at::Tensor to = b.narrow(0, begin, count);
    const at::Tensor x = from.to(at::kDouble);
    const at::Tensor y = to.to(at::kDouble);
    const at::Tensor equal = wide
        ? from.view(at::kLong).eq(to.view(at::kLong))
        : x.eq(y).logical_or(x.isnan().logical_and(y.isnan()));
    // Equal elements have distance 0, also infinities of one sign.
    const at::Tensor distance = (x - y).abs().masked_fill(equal, 0).nan_to_num(
        std::numeric_limits<double>::infinity());
    // The distance of wide integers may have been rounded to 0, so without a
    // tolerance `equal` decides.
    const at::Tensor near = distance.le(tolerance);
    const at::Tensor same = tolerance > 0 ? equal.logical_or(near) : equal;
    result.differing += count - same.sum().item<std::int64_t>();
    result.largest = std::max(result.largest, distance.max().item<double>());
    difference_squares += distance.dot(distance).item<double>();
    squares += x.dot(x).item<double>();
  });
  result.relative = difference_squares == 0
      ? 0
      : std::sqrt(difference_squares) / std::sqrt(squares);
  return result;
}

} // namespace cairn::checkpoints
