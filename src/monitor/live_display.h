#pragma once

#include "monitor/end_of_drawing.h"

#include <cairn/monitor/training_view.h>

#include <string_view>

namespace cairn::monitor {

/// Draws lines at one place of a terminal, over and over. The cursor rests on a
/// blank line above them: what others write there, whole lines, scrolls by
/// above and pushes the drawing down, and a terminal that changes its width
/// finds the cursor where the next drawing begins.
class LiveDisplay {
 public:
  explicit LiveDisplay(int fd);
  /// Leaves the last drawing, and the cursor below it.
  ~LiveDisplay();
  LiveDisplay(const LiveDisplay&) = delete;
  LiveDisplay& operator=(const LiveDisplay&) = delete;

  /// Whether `fd` is a terminal that can show it.
  static bool possible(int fd);

  void draw(const TrainingView& view);
  /// Text that stays, above; it ends without a line break.
  void say(std::string_view text, const TrainingView& view);

 private:
  int fd_;
  Colour colour_;
  std::size_t below_ = 0; ///< lines drawn below the cursor
  EndOfDrawing on_signals_;
};

} // namespace cairn::monitor
