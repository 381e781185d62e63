#pragma once

#include <cstddef>
#include <optional>
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

/// The launcher's terminal, lent to the one rank that draws: what the rank
/// writes to its own output takes its way through the launcher, as lines.
struct LentTerminal {
  int fd = -1;
  bool logged = false; ///< those lines are kept in a file
};
/// The variable in which the launcher says so.
inline constexpr const char* lent_terminal_variable = "CAIRN_TERMINAL";
std::string to_variable(const LentTerminal& terminal);
/// None where nothing is lent, or it cannot be drawn on.
std::optional<LentTerminal> lent_terminal();

/// Clears what is right of the cursor.
inline constexpr std::string_view clear_to_end = "\x1b[K";
/// … and below it.
inline constexpr std::string_view clear_below = "\x1b[J";

/// In one write(2) where the system takes it whole, so that other output does
/// not land inside; what cannot be written has nowhere to be reported.
void put_on_terminal(int fd, std::string_view text);

/// How many columns UTF-8 text takes, if each of its characters takes one.
std::size_t text_columns(std::string_view text);
/// At most its first `width` columns.
std::string cut_text(std::string text, std::size_t width);

} // namespace cairn
