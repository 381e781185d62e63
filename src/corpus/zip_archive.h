#pragma once

#include "corpus/archive_output.h"

#include <filesystem>

namespace cairn::corpus {

/// Whether the file starts as a zip does.
bool is_zip(const std::filesystem::path& path);

/// Unpacks a zip: stored and deflated members, also beyond 4 GB.
void unpack_zip(const std::filesystem::path& path, ArchiveOutput& output);

} // namespace cairn::corpus
