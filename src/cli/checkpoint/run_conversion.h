#pragma once

#include <cairn/checkpoints/convert.h>

namespace cairn::cli {

/// Converts with a progress bar, prints a summary, and returns the exit code.
/// Ctrl-C ends it with nothing written.
int run_conversion(checkpoints::ConvertOptions options);

} // namespace cairn::cli
