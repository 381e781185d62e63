#pragma once

#include "pretrain/parity_row.h"

#include <vector>

namespace cairn::pretrain::parity {

/// The layouts of the parity table: every one of them follows the loss curve of
/// one process.
std::vector<Row> rows();

/// The rows that are run over NCCL, where a row takes longer: each way to share
/// the work between ranks, with each ZeRO stage, pipeline schedule and kind of
/// context parallelism, on 2 and on 4 ranks. Some combine two ways, because
/// their groups then work side by side. All are rows of the table, but those of
/// buffers that are registered with NCCL.
std::vector<Row> rows_over_nccl();

} // namespace cairn::pretrain::parity
