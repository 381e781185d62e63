#include "monitor/internal/live_display.h"

#include "base/internal/terminal.h"

#include <fmt/format.h>

#include <cstdlib>
#include <string>

namespace cairn::monitor {
namespace {

Colour wanted_colour() {
  // https://no-color.org: any value but the empty one turns colours off.
  const char* const none = std::getenv("NO_COLOR");
  return none != nullptr && *none != '\0' ? Colour::none : Colour::ansi;
}

} // namespace

LiveDisplay::LiveDisplay(int fd)
    : fd_(fd), colour_(wanted_colour()), on_signals_(fd) {}

LiveDisplay::~LiveDisplay() {
  if (below_ > 0) {
    on_signals_.set_below(0);
    put_on_terminal(fd_, fmt::format("\x1b[{}B\r\n", below_));
  }
}

bool LiveDisplay::possible(int fd) {
  // The Linux console cannot show braille.
  const char* const kind = std::getenv("TERM");
  return can_redraw(fd) &&
      (kind == nullptr || std::string_view(kind) != "linux");
}

void LiveDisplay::draw(const TrainingView& view) {
  const TerminalSize size = terminal_size(fd_);
  const auto lines =
      view.lines({.columns = size.columns, .rows = size.rows}, colour_);
  std::string text = "\r";
  text += clear_to_end;
  for (const std::string& line : lines) {
    text += "\n\r" + line;
    text += clear_to_end;
  }
  text += clear_below; // the old drawing may have had more lines
  text += fmt::format("\x1b[{}A\r", lines.size());
  below_ = lines.size();
  on_signals_.set_below(below_); // set before the drawing, in case of a signal
  put_on_terminal(fd_, text);
}

void LiveDisplay::say(std::string_view text, const TrainingView& view) {
  put_on_terminal(fd_, fmt::format("\r{}{}\n", clear_below, text));
  draw(view);
}

} // namespace cairn::monitor
