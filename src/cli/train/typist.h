#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace cairn::cli {

/// To stdout as UTF-8; on a terminal without what could steer it.
void print_text(std::string_view text);

/// Prints a text as it grows. A character of several tokens waits for the last
/// of them; some tokenizers write U+FFFD meanwhile.
class Typist {
 public:
  void grow(std::string text);
  /// What waits, and a new line.
  void finish();

 private:
  void print_up_to(std::size_t end);

  std::string text_;
  std::size_t printed_ = 0;
};

} // namespace cairn::cli
