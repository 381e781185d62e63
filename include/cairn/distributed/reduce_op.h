#pragma once

#include <string_view>

namespace cairn::distributed {

/// The rule by which the ranks' values become one value. `mean` is for
/// floating-point tensors only. On booleans `sum` and `max` mean "any",
/// `product` and `min` mean "all".
enum class ReduceOp { sum, mean, max, min, product };

constexpr std::string_view reduce_op_name(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return "sum";
    case ReduceOp::mean:
      return "mean";
    case ReduceOp::max:
      return "max";
    case ReduceOp::min:
      return "min";
    case ReduceOp::product:
      return "product";
  }
  return "";
}

} // namespace cairn::distributed
