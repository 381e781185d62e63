#pragma once

#include "plan/operands.h"
#include "plan/timer.h"

#include <cairn/plan/cluster.h>

#include <cstdint>
#include <vector>

/// The sizes of a block of a GPT.
struct BlockSizes {
  std::int64_t samples = 0;
  std::int64_t sequence = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
};

/// Seconds of both passes of a block, and of the parts that have curves of
/// their own.
struct BlockSeconds {
  double forward = 0;
  double backward = 0;
  double products = 0;
  double attention = 0;
  double rest() const { return forward + backward - products - attention; }
};

/// Measures a block in bf16, and its products and its attention apart.
BlockSeconds block_seconds(
    const Timer& timer,
    Operands& operands,
    const BlockSizes& sizes);

/// Passes over memory of what is neither product nor attention, at these speeds
/// of memory, in units of the least that kernels apart from products must make.
double passes_of(
    const BlockSizes& sizes,
    const BlockSeconds& seconds,
    const std::vector<cairn::plan::SpeedAt>& traffic);

/// Bytes that a sum of two tensors in bf16 reads and writes in a second, by the
/// bytes of a tensor.
std::vector<cairn::plan::SpeedAt> traffic_speeds(
    const Timer& timer,
    Operands& operands,
    const std::vector<std::int64_t>& elements);
