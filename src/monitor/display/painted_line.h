#pragma once

#include "monitor/display/loss_plot.h"

#include <string>
#include <string_view>

namespace cairn::monitor {

/// The role of a piece of text, which decides its colour.
enum class Ink { plain, frame, curve };

/// A line made of pieces, coloured if wanted.
class PaintedLine {
 public:
  explicit PaintedLine(Colour colour) : coloured_(colour == Colour::ansi) {}

  PaintedLine& add(Ink ink, std::string_view text) {
    // Blanks look the same in any colour.
    if (coloured_ && ink != ink_ && text.find_first_not_of(' ') != text.npos) {
      text_ += ink == Ink::frame ? "\x1b[0;2m"  // faint
          : ink == Ink::curve    ? "\x1b[0;36m" // cyan
                                 : "\x1b[0m";
      ink_ = ink;
    }
    text_ += text;
    return *this;
  }
  std::string take() {
    if (ink_ != Ink::plain) {
      text_ += "\x1b[0m";
    }
    return std::move(text_);
  }

 private:
  bool coloured_;
  Ink ink_ = Ink::plain;
  std::string text_;
};

} // namespace cairn::monitor
