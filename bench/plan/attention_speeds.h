#pragma once

#include "plan/operands.h"
#include "plan/timer.h"

#include <cairn/plan/cluster.h>

#include <cstdint>
#include <vector>

/// The sizes of an attention: as many heads as make up the width.
struct AttentionSizes {
  std::int64_t tokens = 0; ///< of all sequences
  std::int64_t sequence = 0;
  std::int64_t width = 0;
  std::int64_t head_size = 0;
  bool causal = true;
};

struct AttentionSeconds {
  double forward = 0;
  double backward = 0;
};

/// Measures attention in bf16.
AttentionSeconds attention_seconds(
    const Timer& timer,
    Operands& operands,
    const AttentionSizes& sizes);

/// The speeds at all combinations of these sizes, with so many tokens and a
/// width, which are multiples of all of them.
cairn::plan::AttentionSpeeds attention_speeds(
    const Timer& timer,
    Operands& operands,
    std::int64_t tokens,
    std::int64_t width,
    const std::vector<std::int64_t>& sequences,
    const std::vector<std::int64_t>& head_sizes);
