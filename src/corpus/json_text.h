#pragma once

#include <string>
#include <string_view>

namespace cairn::corpus {

/// Appends `text` as a JSON string, quotes included; UTF-8 stays as it is.
void append_json_string(std::string& out, std::string_view text);

} // namespace cairn::corpus
