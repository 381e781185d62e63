#pragma once

#include <cstddef>

namespace cairn::monitor {

/// Moves the cursor below a drawing when a signal ends the program. While one
/// exists, such a signal (Ctrl-C, SIGTERM, …) first moves the cursor, so that
/// the shell does not write over the drawing. Signals that have another handler
/// are left alone. Only the first object of a program has an effect.
class EndOfDrawing {
 public:
  explicit EndOfDrawing(int fd);
  ~EndOfDrawing();
  EndOfDrawing(const EndOfDrawing&) = delete;
  EndOfDrawing& operator=(const EndOfDrawing&) = delete;

  /// Sets how many lines of the drawing are below the cursor now.
  void set_below(std::size_t lines);

 private:
  bool first_;
};

} // namespace cairn::monitor
