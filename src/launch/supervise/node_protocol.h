#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace cairn::launch {

/// A message from the launcher of a node to the launcher that started it, sent
/// as a line among its ordinary output. These lines begin with a byte that
/// begins no other line on those streams: the output of ranks is wrapped in
/// such messages too, and only ssh, shells and log-in messages are not.
struct NodeRecord {
  enum class Kind {
    output,    ///< a line of a rank, with its label
    failure,   ///< a rank has failed: how, and its exit code
    last_line, ///< one of the last lines of the rank that failed
  };
  Kind kind = Kind::output;
  std::string text;
  int exit_code = 0; ///< set for a failure
};

/// The record as one line, newline included.
std::string encode(const NodeRecord& record);

/// The record in `line`; empty if there is none.
std::optional<NodeRecord> decode(std::string_view line);

} // namespace cairn::launch
