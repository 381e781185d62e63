#include "launch/supervise/line_splitter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace cairn::launch::line_splitter_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class Lines : public ::testing::Test {
 protected:
  std::vector<std::string> feed(std::string_view bytes) {
    std::vector<std::string> lines;
    splitter_.feed(bytes, now_, [&](std::string_view line) {
      lines.emplace_back(line);
    });
    return lines;
  }
  std::vector<std::string> flush() {
    std::vector<std::string> lines;
    splitter_.flush([&](std::string_view line) { lines.emplace_back(line); });
    return lines;
  }

  LineSplitter splitter_;
  LineSplitter::Clock::time_point now_{};
};

TEST_F(Lines, AreGivenOutWhole) {
  EXPECT_THAT(feed("a\nb\n\nc"), ElementsAre("a\n", "b\n", "\n"));
  EXPECT_THAT(feed("d"), IsEmpty());
  EXPECT_THAT(feed("\ne\n"), ElementsAre("cd\n", "e\n"));
  EXPECT_THAT(flush(), IsEmpty());
}

TEST_F(Lines, ThatAreUnfinishedAreDueAfterAWhile) {
  EXPECT_FALSE(splitter_.due());
  feed("a\nb");
  const auto first = now_;
  now_ += std::chrono::milliseconds(100);
  feed("c");
  EXPECT_EQ(splitter_.due(), first + LineSplitter::patience);
  EXPECT_THAT(flush(), ElementsAre("bc"));
  EXPECT_FALSE(splitter_.due());
}

TEST_F(Lines, ThatNeverEndAreCut) {
  const std::string chunk(LineSplitter::longest / 4, 'x');
  std::size_t given = 0;
  for (int i = 0; i < 9; ++i) {
    for (const std::string& line : feed(chunk)) {
      EXPECT_LE(line.size(), LineSplitter::longest + chunk.size());
      given += line.size();
    }
  }
  for (const std::string& line : flush()) {
    given += line.size();
  }
  EXPECT_EQ(given, 9 * chunk.size());
}

} // namespace
} // namespace cairn::launch::line_splitter_test
