#pragma once

#include "evaluate/text_row.h"

#include <cstdint>
#include <span>
#include <vector>

namespace cairn::evaluate {

struct WindowOptions {
  std::int64_t length = 1024; ///< tokens that the model reads at a time
  /// Tokens that a window adds to those scored already: those before them in
  /// the window are read once more. At most `length`.
  std::int64_t step = 1024;
  /// The last window reaches back so far that it is full. Without it, the
  /// window begins where it would in a longer text.
  bool fill_last = false;
};

/// Cuts a text into windows such that every token but the first is scored
/// exactly once. The rows are views into `tokens`.
std::vector<TextRow> text_windows(
    std::span<const text::TokenId> tokens,
    const WindowOptions& options);

} // namespace cairn::evaluate
