#pragma once

#include "cli/program/command.h"

#include <cairn/base/log.h>
#include <cairn/config/config.h>
#include <cairn/distributed/environment.h>

#include <cstdint>
#include <optional>

namespace cairn::cli {

/// The value of --dry-run, which may name the memory of a rank.
struct PlanRequest {
  std::optional<std::uint64_t> memory{}; ///< bytes that a rank has
};

/// Takes --dry-run[=MEMORY] out of the flags. Throws ConfigError for a memory
/// that is no size.
std::optional<PlanRequest> take_plan_request(Arguments& flags);

/// Prints, on rank 0, what every rank of the flags' layout would hold to
/// continue texts. The flags describe the model, or else the checkpoint does;
/// its weights are not read.
void print_generation_plan(
    const config::Config& config,
    const PlanRequest& request,
    const distributed::Environment& here);

/// A logger that speaks for all ranks: only warnings come from the others.
Logger command_logger(const distributed::Environment& here);

} // namespace cairn::cli
