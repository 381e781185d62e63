#include <cairn/base/log.h>

#include <cairn/base/file.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <string>
#include <thread>
#include <vector>

namespace cairn::log_test {
namespace {

using ::testing::EndsWith;
using ::testing::MatchesRegex;

/// The bytes written into a pipe while `body` has its writing end.
template <typename Body>
std::string piped(Body body) {
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const UniqueFd reading(ends[0]);
  UniqueFd writing(ends[1]);
  std::thread writer([&] {
    body(writing.get());
    writing.reset();
  });
  std::string text;
  std::array<char, 4096> buffer{};
  ssize_t got = 0;
  while ((got = ::read(reading.get(), buffer.data(), buffer.size())) > 0) {
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  writer.join();
  return text;
}

TEST(Logger, WritesTimeAndText) {
  const std::string text =
      piped([](int fd) { Logger({.fd = fd}).info("{} of {}", 3, 7); });
  EXPECT_THAT(text, MatchesRegex(R"(..:..:..\....  *3 of 7.)"));
  EXPECT_THAT(text, EndsWith(" 3 of 7\n"));
}

TEST(Logger, NamesLevelAndRank) {
  const std::string text = piped([](int fd) {
    const Logger logger({.fd = fd, .rank = 3, .world_size = 8});
    logger.warning("slow");
    logger.error("gone");
  });
  EXPECT_THAT(text, ::testing::HasSubstr(" [3/8] warning: slow\n"));
  EXPECT_THAT(text, ::testing::HasSubstr(" [3/8] error: gone\n"));
}

TEST(Logger, KeepsBytesOfAFileFromTheTerminal) {
  const std::string text =
      piped([](int fd) { Logger({.fd = fd}).info("tag {}", "\x1b[2J\xff"); });
  EXPECT_THAT(text, EndsWith(" tag \\x1b[2J\\xff\n"));
}

TEST(Logger, IsSilentBelowItsLevel) {
  const std::string text = piped([](int fd) {
    const Logger logger({.fd = fd, .least = LogLevel::warning});
    EXPECT_FALSE(logger.says(LogLevel::info));
    EXPECT_TRUE(logger.says(LogLevel::error));
    logger.debug("d");
    logger.info("i");
    logger.warning("w");
  });
  EXPECT_THAT(text, EndsWith("warning: w\n"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
}

TEST(Logger, LongLinesArriveWhole) {
  const std::string long_text(1 << 20, 'x');
  const std::string text =
      piped([&](int fd) { Logger({.fd = fd}).info("{}", long_text); });
  EXPECT_THAT(text, EndsWith(long_text + "\n"));
}

TEST(Logger, ThreadsDoNotMixLines) {
  const std::string text = piped([](int fd) {
    const Logger logger({.fd = fd});
    std::vector<std::thread> threads;
    for (char letter = 'a'; letter < 'e'; ++letter) {
      threads.emplace_back([&logger, letter] {
        for (int i = 0; i < 100; ++i) {
          logger.info("{}", std::string(100, letter));
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
  });
  std::size_t lines = 0;
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = text.find('\n', begin)) != text.npos;
       begin = end + 1, ++lines) {
    const std::string line = text.substr(begin, end - begin);
    ASSERT_THAT(line, EndsWith(std::string(100, line.back())));
    ASSERT_EQ(line.size(), std::string("12:04:31.022 ").size() + 100);
  }
  EXPECT_EQ(lines, 400);
}

} // namespace
} // namespace cairn::log_test
