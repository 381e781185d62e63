#pragma once

#include "cli/program/command.h"

#include <chrono>
#include <optional>

namespace cairn::cli {

/// How long the ranks of a cairn command wait for each other, if its words say
/// so by --distributed-timeout-minutes, also in a file of flags; a month at
/// most.
std::optional<std::chrono::minutes> timeout_of_command(const Arguments& words);

} // namespace cairn::cli
