#pragma once

#include "cli/launch/launch_flags.h"

#include <CLI/CLI.hpp>

namespace cairn::cli {

/// Makes `app` read every flag of `cairn launch` into `flags`, which must
/// outlive it, and explain them.
void add_launch_options(CLI::App& app, LaunchFlags& flags);

/// Throws ConfigError for a flag that was read and has nothing to say: no flag
/// is ignored.
void check_purpose(const CLI::App& app, const LaunchFlags& flags);

} // namespace cairn::cli
