#pragma once

#include "pretrain/parity_training.h"

#include <vector>

namespace cairn::pretrain::parity {

/// The layouts of the parity table: every one of them follows the loss curve of
/// one process.
std::vector<Row> rows();

} // namespace cairn::pretrain::parity
