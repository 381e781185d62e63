#pragma once

#include "cli/program/command.h"

namespace cairn::cli {

/// The body of a command that is a family, such as `cairn data`: picks the
/// member by its name, lists them when asked for help or given none.
int run_subcommand(
    std::string_view family,
    std::span<const Command> members,
    const Arguments& arguments);

} // namespace cairn::cli
