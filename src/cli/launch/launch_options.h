#pragma once

#include "cli/launch/launch_flags.h"

#include <CLI/CLI.hpp>

namespace cairn::cli {

/// Adds every flag of `cairn launch` to `app`, with its help. They are read
/// into `flags`, which must outlive `app`.
void add_launch_options(CLI::App& app, LaunchFlags& flags);

/// Throws ConfigError for a given flag that has no effect: no flag is ignored.
void check_purpose(const CLI::App& app, const LaunchFlags& flags);

} // namespace cairn::cli
