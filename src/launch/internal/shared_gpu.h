#pragma once

#include "launch/internal/node_plan.h"

#include <string_view>

namespace cairn::launch {

/// The variables with which rank `rank` of `ranks` shares one GPU with the
/// others over NCCL. NCCL refuses two ranks of one host on one GPU, so each
/// rank pretends to be a host of its own and reaches the others through
/// sockets. That is slow: it serves to try out layouts of ranks.
Variables shared_gpu_variables(int rank, int ranks);

/// True for a variable of NCCL's that shared_gpu_variables() sets.
bool is_set_for_shared_gpu(std::string_view variable);

} // namespace cairn::launch
