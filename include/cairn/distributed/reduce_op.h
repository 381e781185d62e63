#pragma once

#include <string_view>

namespace cairn::distributed {

/// How the values of the ranks become one. `mean` is for floating-point tensors
/// only; on booleans `sum` and `max` say "any", `product` and `min` say "all".
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
