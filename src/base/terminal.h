#pragma once

#include <cstddef>
#include <string>
#include <string_view>

// What is needed to draw on a terminal.

namespace cairn {

/// Whether `fd` is a terminal on which a line can be drawn again.
bool can_redraw(int fd);

struct TerminalSize {
  std::size_t columns = 80; ///< that can be written without a line break
  std::size_t rows = 24;
};
TerminalSize terminal_size(int fd);

/// Clears what is right of the cursor.
inline constexpr std::string_view clear_to_end = "\x1b[K";

/// In one write(2) where the system takes it whole, so that other output does
/// not land inside; what cannot be written has nowhere to be reported.
void put_on_terminal(int fd, std::string_view text);

/// How many columns UTF-8 text takes, if each of its characters takes one.
std::size_t text_columns(std::string_view text);
/// At most its first `width` columns.
std::string cut_text(std::string text, std::size_t width);

} // namespace cairn
