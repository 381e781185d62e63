#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace cairn::launch {

/// What the launcher of a node tells the launcher that started it, as lines
/// among its ordinary output. They begin with a byte that nothing else on those
/// streams begins a line with: what ranks write is wrapped in such lines
/// itself, and only ssh, shells and log-in messages are not.
struct NodeRecord {
  enum class Kind {
    output,    ///< a line of a rank, with its label
    failure,   ///< a rank has failed: how, and with which exit code
    last_line, ///< one of the last lines of the rank that failed
  };
  Kind kind = Kind::output;
  std::string text;
  int exit_code = 0; ///< of a failure
};

/// One line, newline included.
std::string encode(const NodeRecord& record);

/// None where `line` is not a record.
std::optional<NodeRecord> decode(std::string_view line);

} // namespace cairn::launch
