#include "base/internal/terminal_safe.h"

#include <gtest/gtest.h>

namespace cairn::terminal_safe_test {
namespace {

TEST(TerminalSafe, KeepsTextAndLineBreaks) {
  EXPECT_EQ(terminal_safe("a\tb\nc … ü 漢"), "a\tb\nc … ü 漢");
}

TEST(TerminalSafe, WritesWhatSteersATerminalAsNumbers) {
  EXPECT_EQ(terminal_safe("\x1b[2J\r\x7f"), "\\x1b[2J\\x0d\\x7f");
  EXPECT_EQ(
      terminal_safe("\xc2\x9b"
                    "2J"),
      "\\xc2\\x9b2J");
  EXPECT_EQ(terminal_safe("a\xff\xc3"), "a\\xff\\xc3");
}

} // namespace
} // namespace cairn::terminal_safe_test
