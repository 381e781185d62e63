#pragma once

#include <cstddef>

namespace cairn::monitor {

/// While it lives, a signal that ends the program (Ctrl-C, SIGTERM, …) first
/// moves the cursor below what is drawn on a terminal, so that the shell does
/// not write over it. Signals for which somebody else has an answer are left
/// alone. The first one of a program counts, a second does nothing.
class EndOfDrawing {
 public:
  explicit EndOfDrawing(int fd);
  ~EndOfDrawing();
  EndOfDrawing(const EndOfDrawing&) = delete;
  EndOfDrawing& operator=(const EndOfDrawing&) = delete;

  /// So many lines of it are below the cursor now.
  void set_below(std::size_t lines);

 private:
  bool first_;
};

} // namespace cairn::monitor
