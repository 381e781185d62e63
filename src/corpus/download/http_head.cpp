#include "corpus/download/http_head.h"

#include "base/internal/ascii_case.h"
#include "base/internal/trimmed.h"

#include <algorithm>
#include <charconv>

namespace cairn::corpus {
namespace {

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end ? std::optional(value)
                                             : std::nullopt;
}

/// Parses "bytes 100-199/200" or, with status 416, "bytes */200".
void read_content_range(std::string_view value, HttpHead& head) {
  if (!value.starts_with("bytes ")) {
    return;
  }
  value.remove_prefix(6);
  const auto dash = std::min(value.find('-'), value.size());
  const auto slash = std::min(value.find('/'), value.size());
  head.range_start = number(value.substr(0, dash));
  head.range_total =
      slash < value.size() ? number(value.substr(slash + 1)) : std::nullopt;
}

} // namespace

void HttpHead::read_line(std::string_view line) {
  if (line.starts_with("HTTP/")) { // the last answer counts
    *this = {};
    const auto code =
        trimmed(line.substr(std::min(line.find(' '), line.size())));
    status = static_cast<long>(number(code.substr(0, 3)).value_or(0));
    return;
  }
  const auto colon = line.find(':');
  if (colon == line.npos) {
    return;
  }
  const auto name = lower_case(line.substr(0, colon));
  const auto value = trimmed(line.substr(colon + 1));
  if (name == "content-length") {
    length = number(value);
  } else if (name == "content-range") {
    read_content_range(value, *this);
  } else if (name == "etag") {
    etag = value;
  } else if (name == "last-modified") {
    last_modified = value;
  } else if (name == "content-type") {
    content_type = value;
  }
}

} // namespace cairn::corpus
