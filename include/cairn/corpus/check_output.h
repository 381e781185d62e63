#pragma once

#include <filesystem>
#include <span>

namespace cairn::corpus {

/// Before the work begins: an output that is one of the inputs, and so would
/// replace it, is a ConfigError; another file that is there is a DataError
/// unless it may be replaced. Standard input and output are "-"; pipes, devices
/// and folders may always be written to.
void check_output(
    std::span<const std::filesystem::path> inputs,
    const std::filesystem::path& output,
    bool overwrite);

} // namespace cairn::corpus
