#include <cairn/base/error.h>

#include "data/internal/line_reader.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace cairn::data::line_reader_test {
namespace {

using cairn::testing::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> lines_of(const std::filesystem::path& file) {
  LineReader reader(file);
  std::vector<std::string> lines;
  while (const auto line = reader.next()) {
    lines.emplace_back(*line);
    EXPECT_EQ(reader.number(), lines.size());
  }
  return lines;
}

TEST(LineReader, TakesLinesWithAndWithoutTheLastEnd) {
  const TemporaryFolder folder;
  EXPECT_THAT(lines_of(folder.write("x", "")), ElementsAre());
  EXPECT_THAT(lines_of(folder.write("x", "\n")), ElementsAre(""));
  EXPECT_THAT(lines_of(folder.write("x", "a\nb")), ElementsAre("a", "b"));
  EXPECT_THAT(
      lines_of(folder.write("x", "a\r\n\r\n\nb\n")),
      ElementsAre("a", "", "", "b"));
}

TEST(LineReader, SaysWhereItIs) {
  const TemporaryFolder folder;
  LineReader reader(folder.write("x.txt", "a\nb\n"));
  reader.next();
  reader.next();
  EXPECT_THAT(reader.where(), HasSubstr("x.txt:2"));
}

TEST(BlockReader, BlocksAreWholeLinesInOrder) {
  const TemporaryFolder folder;
  std::string text;
  std::uint64_t lines = 0;
  for (int i = 0; i < 3000; ++i, ++lines) {
    text += std::string(static_cast<std::size_t>(i * 37 % 101), 'x') + "\n";
    if (i % 500 == 0) {
      text += std::string(5000, 'y') + "\n"; // longer than a block
      ++lines;
    }
  }
  text += "the last, without an end";
  ++lines;
  BlockReader reader(folder.write("x", text), {.block_size = 1000});
  LineBlock block;
  std::string all;
  std::uint64_t line = 1;
  std::uint64_t stored = 0;
  while (reader.next(block)) {
    EXPECT_EQ(block.first_line, line);
    line += block.lines;
    stored += block.stored;
    all += block.text();
    EXPECT_TRUE(block.text().ends_with('\n') || all.size() == text.size());
    for (std::size_t i = 0; i < LineBlock::padding; ++i) {
      ASSERT_EQ(block.buffer.data()[block.size + i], '\0');
    }
  }
  EXPECT_EQ(all, text);
  EXPECT_EQ(line - 1, lines);
  EXPECT_EQ(stored, text.size());
}

TEST(BlockReader, ALineThatIsTooLongIsNamed) {
  const TemporaryFolder folder;
  BlockReader reader(
      folder.write("x", "short\n" + std::string(100'000, 'y')),
      {.block_size = 1000, .longest_line = 50'000});
  LineBlock block;
  EXPECT_TRUE(reader.next(block));
  EXPECT_THAT(
      [&] { reader.next(block); },
      ::testing::ThrowsMessage<DataError>(
          HasSubstr("x:2: the line is too long")));
}

} // namespace
} // namespace cairn::data::line_reader_test
