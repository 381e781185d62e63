#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace cairn::cli {

/// Prints to stdout as UTF-8; on a terminal without control characters.
void print_text(std::string_view text);

/// Prints a text as it grows. A character made of several tokens waits for the
/// last of them; some tokenizers write U+FFFD meanwhile.
class Typist {
 public:
  void grow(std::string text);
  /// Prints the characters that wait, and a newline.
  void finish();

 private:
  void print_up_to(std::size_t end);

  std::string text_;
  std::size_t printed_ = 0;
};

} // namespace cairn::cli
