#pragma once

#include "corpus/download/archive_output.h"

#include <filesystem>

namespace cairn::corpus {

/// True when the file starts as a zip archive does.
bool is_zip(const std::filesystem::path& path);

/// Unpacks a zip: stored and deflated members, also archives beyond 4 GB.
void unpack_zip(const std::filesystem::path& path, ArchiveOutput& output);

} // namespace cairn::corpus
