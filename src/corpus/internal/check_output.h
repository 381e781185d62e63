#pragma once

#include <filesystem>
#include <span>

namespace cairn::corpus {

/// Checks an output before the work begins. Throws ConfigError if the output is
/// one of the inputs and would replace it, and DataError if another file exists
/// there and `overwrite` is false. Standard input and output are "-"; pipes,
/// devices and folders may always be written to.
void check_output(
    std::span<const std::filesystem::path> inputs,
    const std::filesystem::path& output,
    bool overwrite);

} // namespace cairn::corpus
