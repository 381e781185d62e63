#pragma once

#include "monitor/measures/traced_modules.h"

#include <filesystem>

namespace cairn::monitor {

/// Adds the notes to a trace that libtorch's profiler has written: "Module",
/// "FLOPs" and "Call stack" to operators, "Module" to what a GPU did for them.
/// Scopes of modules become the events by which TensorBoard's profiler plugin
/// makes its view of modules. The file is replaced when all of it is written.
/// Throws DataError if it cannot be read or written.
void add_notes(const std::filesystem::path& trace, const TraceNotes& notes);

} // namespace cairn::monitor
