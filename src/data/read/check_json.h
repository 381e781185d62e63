#pragma once

#include <simdjson.h>

#include <string>
#include <string_view>

namespace cairn::data {

/// Walks through an unused value and finds faults that make its line invalid
/// JSON for Python's json module. (simdjson skips unused values unread.) Throws
/// DataError for something that is no value; returns errors in the structure.
simdjson::error_code check_json(simdjson::ondemand::value value);

/// True when every backslash between the quotes begins a JSON escape. Half of a
/// surrogate pair counts as one.
bool escapes_are_whole(std::string_view between_quotes);

/// The text for messages: shortened, and without bytes that move a terminal's
/// cursor.
std::string shown(std::string_view text);

} // namespace cairn::data
