#include "launch/supervise/node_protocol.h"

#include <fmt/core.h>

#include <charconv>

namespace cairn::launch {
namespace {

constexpr char mark = '\x1e'; // ASCII's record separator

constexpr char letter(NodeRecord::Kind kind) {
  switch (kind) {
    case NodeRecord::Kind::output:
      return 'O';
    case NodeRecord::Kind::failure:
      return 'F';
    case NodeRecord::Kind::last_line:
      return 'L';
  }
  return '?';
}

} // namespace

std::string encode(const NodeRecord& record) {
  auto line = fmt::format("{}{}", mark, letter(record.kind));
  if (record.kind == NodeRecord::Kind::failure) {
    line += fmt::format("{} ", record.exit_code);
  }
  return line + record.text + "\n";
}

std::optional<NodeRecord> decode(std::string_view line) {
  if (line.ends_with('\n')) {
    line.remove_suffix(1);
  }
  if (line.size() < 2 || line[0] != mark) {
    return std::nullopt;
  }
  NodeRecord record;
  const char kind = line[1];
  line.remove_prefix(2);
  if (kind == letter(NodeRecord::Kind::failure)) {
    record.kind = NodeRecord::Kind::failure;
    const auto [end, error] = std::from_chars(
        line.data(),
        line.data() + line.size(),
        record.exit_code);
    if (error != std::errc{} || end == line.data() + line.size() ||
        *end != ' ' || record.exit_code < 1 || record.exit_code > 255) {
      return std::nullopt;
    }
    line.remove_prefix(static_cast<std::size_t>(end - line.data()) + 1);
  } else if (kind == letter(NodeRecord::Kind::last_line)) {
    record.kind = NodeRecord::Kind::last_line;
  } else if (kind != letter(NodeRecord::Kind::output)) {
    return std::nullopt;
  }
  record.text = line;
  return record;
}

} // namespace cairn::launch
