#pragma once

#include <filesystem>

namespace cairn::cli {

/// Without the ending that says what it is packed with.
std::filesystem::path unpacked_name(std::filesystem::path file);

/// Whether a file is JSONL, told from its name, whatever it is packed with.
bool is_jsonl_name(const std::filesystem::path& file);

} // namespace cairn::cli
