#pragma once

#include <nlohmann/json_fwd.hpp>

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

// Files that tasks read. What is wrong with them is a DataError that names the
// file and the line.

namespace cairn::evaluate {

/// A whole text in UTF-8, packed or not. Throws DataError if it is empty or has
/// other bytes.
std::string read_text(const std::filesystem::path& path);

/// Calls `visit` for every line, which holds a JSON object; empty lines are
/// passed over. `where` is "file:line". Throws DataError if there is no object.
void for_each_object(
    const std::filesystem::path& path,
    const std::function<
        void(const nlohmann::json& object, const std::string& where)>& visit);

/// The text under a key. Throws DataError if it is missing or of another type.
std::string text_under(
    const nlohmann::json& object,
    std::string_view key,
    const std::string& where);

/// True for names that end in .json or .jsonl, packed or not.
bool is_json_file(const std::filesystem::path& path);

} // namespace cairn::evaluate
