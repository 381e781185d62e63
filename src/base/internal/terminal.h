#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

// Helpers for drawing on a terminal.

namespace cairn::inline base {

/// True when `fd` is a terminal on which a line can be redrawn.
bool can_redraw(int fd);

struct TerminalSize {
  std::size_t columns = 80; ///< columns that do not cause a line break
  std::size_t rows = 24;
};
TerminalSize terminal_size(int fd);

/// The launcher's terminal, lent to the one rank that draws. A rank cannot draw
/// on its own output, because the launcher passes that on line by line.
struct LentTerminal {
  int fd = -1;
  bool logged = false; ///< the launcher also keeps the rank's lines in a file
};
/// The environment variable through which the launcher lends its terminal.
inline constexpr const char* lent_terminal_variable = "CAIRN_TERMINAL";
std::string to_variable(const LentTerminal& terminal);
/// The terminal lent to this process; none where there is none or it cannot be
/// drawn on.
std::optional<LentTerminal> lent_terminal();

/// Clears the line to the right of the cursor.
inline constexpr std::string_view clear_to_end = "\x1b[K";
/// Clears everything to the right of and below the cursor.
inline constexpr std::string_view clear_below = "\x1b[J";

/// Writes `text` in one write(2) if the system takes it whole, so that other
/// output does not land inside. There is nowhere to report a failure.
void put_on_terminal(int fd, std::string_view text);

/// The number of columns of UTF-8 text, if each character takes one.
std::size_t text_columns(std::string_view text);
/// The first `width` columns of `text`, or all of it if it is shorter.
std::string cut_text(std::string text, std::size_t width);

} // namespace cairn::base
