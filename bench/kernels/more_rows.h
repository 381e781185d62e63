#pragma once

#include "kernels/share_table.h"

namespace cairn::bench {

/// Norm of gradients, clipping, updates, and what a rank with a part of the
/// vocabulary or of a Llama computes.
void step_kernels(const ShareTable& table);
/// Passes whose results are matrices of fp8.
void fp8_kernels(const ShareTable& table);
/// Kernels that choose experts, and gather, sort and mix their rows.
void expert_kernels(const ShareTable& table);

} // namespace cairn::bench
