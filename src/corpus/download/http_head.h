#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cairn::corpus {

/// The head of the server's answer.
struct HttpHead {
  long status = 0;
  std::optional<std::uint64_t> length;      ///< of the following bytes
  std::optional<std::uint64_t> range_start; ///< with status 206
  std::optional<std::uint64_t> range_total; ///< with status 206 or 416
  std::string etag;
  std::string last_modified;
  std::string content_type;

  /// Reads one line of the answer; a status line begins a new answer.
  void read_line(std::string_view line);
};

} // namespace cairn::corpus
