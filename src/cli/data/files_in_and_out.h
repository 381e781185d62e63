#pragma once

#include <CLI/CLI.hpp>

#include <filesystem>
#include <string>
#include <vector>

namespace cairn::cli {

/// Adds --input, which takes several files without its name, too.
void add_inputs(
    CLI::App& app,
    const std::string& name,
    std::vector<std::filesystem::path>& inputs,
    const std::string& about);

/// Adds --output and --overwrite of a command that writes one file.
void add_output(CLI::App& app, std::string& output, bool& overwrite);

} // namespace cairn::cli
