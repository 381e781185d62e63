#include "evaluate/text_windows.h"

#include <algorithm>

namespace cairn::evaluate {

std::vector<TextRow> text_windows(
    std::span<const text::TokenId> tokens,
    const WindowOptions& options) {
  // A window reads `length` tokens and is asked for those that come next.
  const auto targets = static_cast<std::int64_t>(tokens.size()) - 1;
  std::vector<TextRow> rows;
  for (std::int64_t done = 0; done < targets;) {
    const std::int64_t full = done == 0 ? options.length : done + options.step;
    const std::int64_t end = std::min(full, targets);
    const std::int64_t begin = std::max<std::int64_t>(
        0,
        (options.fill_last ? end : full) - options.length);
    rows.push_back(
        {tokens.subspan(
             static_cast<std::size_t>(begin),
             static_cast<std::size_t>(end + 1 - begin)),
         end - done});
    done = end;
  }
  return rows;
}

} // namespace cairn::evaluate
