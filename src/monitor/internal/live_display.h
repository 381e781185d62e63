#pragma once

#include "monitor/display/end_of_drawing.h"
#include "monitor/internal/training_view.h"

#include <string_view>

namespace cairn::monitor {

/// Draws lines at one place of a terminal, again and again. The cursor rests on
/// a blank line above them. Whole lines that others write there scroll by above
/// and push the drawing down, and a terminal that changes its width leaves the
/// cursor where the next drawing begins.
class LiveDisplay {
 public:
  explicit LiveDisplay(int fd);
  /// Leaves the last drawing and moves the cursor below it.
  ~LiveDisplay();
  LiveDisplay(const LiveDisplay&) = delete;
  LiveDisplay& operator=(const LiveDisplay&) = delete;

  /// True when `fd` is a terminal that can show the drawing.
  static bool possible(int fd);

  void draw(const TrainingView& view);
  /// Prints text that stays, above the drawing; `text` has no line break at its
  /// end.
  void say(std::string_view text, const TrainingView& view);

 private:
  int fd_;
  Colour colour_;
  std::size_t below_ = 0; ///< lines drawn below the cursor
  EndOfDrawing on_signals_;
};

} // namespace cairn::monitor
