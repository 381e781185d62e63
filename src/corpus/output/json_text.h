#pragma once

#include <string>
#include <string_view>

namespace cairn::corpus {

/// Appends `text` as a JSON string with its quotes; UTF-8 is not escaped.
void append_json_string(std::string& out, std::string_view text);

} // namespace cairn::corpus
