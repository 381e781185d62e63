#pragma once

#include "pretrain/parity_training.h"

#include <vector>

namespace cairn::pretrain::parity {

/// The layouts of the parity table: every one of them follows the loss curve of
/// one process.
std::vector<Row> rows();

/// The rows of the table that are also run over NCCL, where a row takes longer:
/// one or two rows for each way to share the work between ranks, and for each
/// ZeRO stage, pipeline schedule and kind of context parallelism. Some combine
/// two ways, on 4 ranks, because their groups then work side by side.
std::vector<Row> rows_over_nccl();

} // namespace cairn::pretrain::parity
