#pragma once

#include "plan/operands.h"
#include "plan/timer.h"

#include <cairn/plan/cluster.h>

#include <cstdint>
#include <vector>

/// Seconds of the products of a linear layer.
struct ProductSeconds {
  double forward = 0;
  double input_gradient = 0;
  double weight_gradient = 0;
  double all() const { return forward + input_gradient + weight_gradient; }
};

enum class Bits { sixteen, eight };

/// Measures the products of a layer from `in` to `out` values, as training
/// computes them: with sums of weight gradients in fp32, and in 8 bits from
/// factors that are rounded.
ProductSeconds product_seconds(
    const Timer& timer,
    Operands& operands,
    Bits bits,
    std::int64_t tokens,
    std::int64_t out,
    std::int64_t in);

/// The speeds at all combinations of these sizes.
cairn::plan::ProductSpeeds product_speeds(
    const Timer& timer,
    Operands& operands,
    Bits bits,
    const std::vector<std::int64_t>& tokens,
    const std::vector<std::int64_t>& widths);
