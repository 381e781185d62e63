#pragma once

#include <simdjson.h>

#include <string>
#include <string_view>

namespace cairn::data {

/// Walks a value that nobody wants and finds what makes its line no JSON, as
/// Python's json module would. (simdjson passes over such values unread.) What
/// is no value at all is a DataError; the structure's faults are returned.
simdjson::error_code check_json(simdjson::ondemand::value value);

/// Whether every backslash between the quotes begins an escape of JSON. Half a
/// surrogate pair is one too.
bool escapes_are_whole(std::string_view between_quotes);

/// For messages: without what moves a terminal's cursor, and not too long.
std::string shown(std::string_view text);

} // namespace cairn::data
