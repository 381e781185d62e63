#include "evaluate/task.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace cairn::evaluate {

void OwnedRows::add(TokenPair row) {
  // The last token is scored, not read.
  const auto room = static_cast<std::size_t>(longest_) + 1;
  if (row.tokens.size() > room) {
    row.tokens.erase(
        row.tokens.begin(),
        row.tokens.end() - static_cast<std::ptrdiff_t>(room));
    row.scored = std::min(row.scored, longest_);
    ++cut_;
  }
  row.tokens.shrink_to_fit();
  tokens_.push_back(std::make_unique<const TokenIds>(std::move(row.tokens)));
  rows_.push_back({*tokens_.back(), row.scored});
}

void OwnedRows::log_cuts(const Logger& logger) const {
  if (cut_ > 0) {
    logger.warning(
        "{} of {} rows have more tokens than the model reads ({}): their "
        "beginnings are left out",
        cut_,
        rows_.size(),
        longest_);
  }
}

} // namespace cairn::evaluate
