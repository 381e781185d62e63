#include "launch/supervise/line_splitter.h"

namespace cairn::launch {

void LineSplitter::feed(
    std::string_view bytes,
    Clock::time_point now,
    const Use& use) {
  while (!bytes.empty()) {
    if (unfinished_.empty()) {
      since_ = now;
    }
    const auto newline = bytes.find('\n');
    const bool ended = newline != std::string_view::npos;
    const auto part = bytes.substr(0, ended ? newline + 1 : newline);
    bytes.remove_prefix(part.size());
    if (ended && unfinished_.empty()) {
      use(part);
      continue;
    }
    unfinished_ += part;
    if (ended || unfinished_.size() >= longest) {
      flush(use);
    }
  }
}

void LineSplitter::flush(const Use& use) {
  if (!unfinished_.empty()) {
    use(unfinished_);
    unfinished_.clear();
  }
}

std::optional<LineSplitter::Clock::time_point> LineSplitter::due() const {
  if (unfinished_.empty()) {
    return std::nullopt;
  }
  return since_ + patience;
}

} // namespace cairn::launch
