#include "base/internal/progress.h"

#include <cairn/base/file.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <vector>

namespace cairn::progress_test {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

std::string all_from(int fd) {
  std::string text;
  std::array<char, 4096> buffer{};
  ssize_t got = 0;
  // A terminal whose other end is closed gives EIO.
  while ((got = ::read(fd, buffer.data(), buffer.size())) > 0) {
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return text;
}

/// The bytes that `body` writes to the descriptor it is given.
template <typename Body>
std::string written_to(UniqueFd reading, UniqueFd writing, Body body) {
  auto text =
      std::async(std::launch::async, [&] { return all_from(reading.get()); });
  body(writing.get());
  writing.reset();
  return text.get();
}

template <typename Body>
std::string on_terminal(unsigned short columns, Body body) {
  ::setenv("TERM", "xterm", 1);
  int ours = -1;
  int theirs = -1;
  const struct winsize size { 24, columns, 0, 0 };
  EXPECT_EQ(::openpty(&ours, &theirs, nullptr, nullptr, &size), 0);
  return written_to(UniqueFd(ours), UniqueFd(theirs), body);
}

template <typename Body>
std::string in_pipe(Body body) {
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  return written_to(UniqueFd(ends[0]), UniqueFd(ends[1]), body);
}

std::size_t count(const std::string& text, char c) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), c));
}

TEST(Progress, RedrawsOneLineOnATerminal) {
  const std::string text = on_terminal(80, [](int fd) {
    Progress bar({.label = "reading", .total = 1000, .unit = "B", .fd = fd});
    bar.advance(250);
    bar.advance(750);
    bar.done();
    bar.done();
  });
  EXPECT_THAT(text, StartsWith("\rreading   25%  [===="));
  EXPECT_THAT(text, HasSubstr("\x1b[K\rreading: 1.00 kB in "));
  EXPECT_THAT(text, EndsWith("\x1b[K\r\n")); // the terminal adds the \r
  EXPECT_EQ(count(text, '\n'), 1);
}

TEST(Progress, DrawsAtMostTenTimesASecond) {
  const auto start = std::chrono::steady_clock::now();
  const std::string text = on_terminal(80, [&](int fd) {
    Progress bar({.label = "x", .total = 1U << 31, .fd = fd});
    while (std::chrono::steady_clock::now() - start <
           std::chrono::milliseconds(250)) {
      bar.advance();
    }
    // Another drawing is due by then, however busy the machine is.
    std::this_thread::sleep_for(std::chrono::milliseconds(110));
    bar.advance();
    bar.done();
  });
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  const std::size_t drawings = count(text, '\r') - 1; // one is of the \n
  EXPECT_GE(drawings, 3);
  EXPECT_LE(static_cast<double>(drawings), seconds * 10 + 2);
}

TEST(Progress, FitsTheTerminal) {
  const std::string text = on_terminal(30, [](int fd) {
    Progress bar({.label = "a rather long label", .total = 1000, .fd = fd});
    bar.advance(250);
  });
  const std::size_t end = text.find("\x1b[K");
  ASSERT_NE(end, text.npos);
  EXPECT_LE(end - 1, 29);
  EXPECT_THAT(text, HasSubstr("25%"));
}

TEST(Progress, LeavesTheLineWhenTheJobFails) {
  const std::string text = on_terminal(80, [](int fd) {
    Progress bar({.label = "x", .total = 10, .fd = fd});
    bar.advance(3);
  });
  EXPECT_THAT(text, AllOf(EndsWith("\x1b[K\r\n"), Not(HasSubstr(" in "))));
}

TEST(Progress, IsQuietElsewhere) {
  const std::string text = in_pipe([](int fd) {
    Progress bar({.label = "reading", .total = 7, .unit = "files", .fd = fd});
    for (int i = 0; i < 7; ++i) {
      bar.advance();
    }
    bar.done();
  });
  EXPECT_THAT(text, StartsWith("reading: 7 files in "));
  EXPECT_EQ(count(text, '\n'), 1);
  EXPECT_EQ(count(text, '\r'), 0);
}

TEST(Progress, AFailedJobSaysNothingElsewhere) {
  const std::string text = in_pipe([](int fd) {
    Progress bar({.label = "x", .total = 10, .fd = fd});
    bar.advance(3);
  });
  EXPECT_THAT(text, IsEmpty());
}

TEST(Progress, ADumbTerminalIsNotDrawnOn) {
  const std::string text = on_terminal(80, [](int fd) {
    ::setenv("TERM", "dumb", 1);
    Progress bar({.label = "x", .total = 10, .fd = fd});
    bar.advance(3);
    bar.done();
  });
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_EQ(count(text, '\n'), 1);
}

TEST(Progress, WritesALineNowAndThenIfAsked) {
  const std::string text = in_pipe([](int fd) {
    Progress bar(
        {.label = "x",
         .total = 10,
         .fd = fd,
         .line_interval = std::chrono::milliseconds(1)});
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    bar.advance(3);
    bar.done();
  });
  EXPECT_THAT(text, StartsWith("x: 3 items of 10 items (30%), "));
  EXPECT_THAT(text, HasSubstr("\nx: 3 items in "));
  EXPECT_EQ(count(text, '\n'), 2);
}

TEST(Progress, CountsFromManyThreads) {
  const std::string text = in_pipe([](int fd) {
    Progress bar(
        {.label = "x",
         .unit = "steps",
         .fd = fd,
         .line_interval = std::chrono::milliseconds(1)});
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int k = 0; k < 25000; ++k) {
          bar.advance();
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    bar.done();
  });
  EXPECT_THAT(text, HasSubstr("x: 100k steps in "));
}

TEST(Progress, AClosedDescriptorDoesNoHarm) {
  Progress bar({.label = "x", .total = 10, .fd = -1});
  bar.advance(3);
  EXPECT_NO_THROW(bar.done());
}

} // namespace
} // namespace cairn::progress_test
