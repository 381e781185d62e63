#pragma once

#include <filesystem>

namespace cairn::cli {

/// The name without the ending of a compressed file.
std::filesystem::path unpacked_name(std::filesystem::path file);

/// True when the name is that of a JSONL file, compressed or not.
bool is_jsonl_name(const std::filesystem::path& file);

} // namespace cairn::cli
