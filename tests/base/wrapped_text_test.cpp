#include "base/internal/wrapped_text.h"

#include <gtest/gtest.h>

namespace cairn::wrapped_text_test {
namespace {

TEST(WrappedText, BreaksBetweenWords) {
  EXPECT_EQ(wrapped_text("one two three", 2, 9), "one two\n  three");
  EXPECT_EQ(wrapped_text("one two three", 2, 8), "one\n  two\n  three");
  EXPECT_EQ(wrapped_text("one two three", 0, 13), "one two three");
  EXPECT_EQ(wrapped_text("", 2, 9), "");
}

TEST(WrappedText, LeavesLongWordsAndLineBreaks) {
  EXPECT_EQ(
      wrapped_text("a incomprehensible b", 0, 5),
      "a\nincomprehensible\nb");
  EXPECT_EQ(wrapped_text("one\ntwo three", 1, 20), "one\n two three");
}

} // namespace
} // namespace cairn::wrapped_text_test
