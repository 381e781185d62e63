#pragma once

#include <cairn/config/node.h>

#include <string>
#include <string_view>

namespace cairn::config {

/// Reads JSON as people write it, with the rules of hjson that DeepSpeed's
/// files follow: comments (`#`, `//`, `/* */`), trailing and missing commas,
/// unquoted keys and strings, '''multi-line strings''', a root object without
/// braces. An empty text is an empty object.
///
/// Throws ConfigError with `name:line:column` on bad syntax, invalid UTF-8, a
/// key given twice (both places named), nesting deeper than 100 or more than
/// 16 MiB of text. `name` is only used in messages.
Node parse_hjson(std::string_view text, std::string_view name);

/// Reads a file in the same way.
Node read_hjson_file(const std::string& path);

/// The value as plain JSON.
std::string plain_json(const Node& node);

} // namespace cairn::config
