#include <cairn/base/file.h>

#include <fcntl.h>
#include <gtest/gtest.h>

#include <utility>

namespace cairn::unique_fd_test {
namespace {

bool is_open(int fd) {
  return ::fcntl(fd, F_GETFD) >= 0;
}

int some_fd() {
  return ::open("/dev/null", O_RDONLY | O_CLOEXEC);
}

TEST(UniqueFd, ClosesAtTheEndOfItsScope) {
  int number = -1;
  {
    const UniqueFd fd(some_fd());
    number = fd.get();
    EXPECT_TRUE(fd);
    EXPECT_TRUE(is_open(number));
  }
  EXPECT_FALSE(is_open(number));
}

TEST(UniqueFd, MovesOwnership) {
  UniqueFd first(some_fd());
  const int number = first.get();
  UniqueFd second(std::move(first));
  EXPECT_FALSE(first); // NOLINT(bugprone-use-after-move): specified
  EXPECT_EQ(second.get(), number);
  UniqueFd third(some_fd());
  const int replaced = third.get();
  third = std::move(second);
  EXPECT_EQ(third.get(), number);
  EXPECT_FALSE(is_open(replaced));
  const int released = third.release();
  EXPECT_FALSE(third);
  EXPECT_TRUE(is_open(released));
  UniqueFd{released};
  EXPECT_FALSE(is_open(released));
}

TEST(UniqueFd, SurvivesSelfMove) {
  UniqueFd fd(some_fd());
  UniqueFd& same = fd;
  fd = std::move(same);
  EXPECT_TRUE(fd);
  EXPECT_TRUE(is_open(fd.get()));
}

} // namespace
} // namespace cairn::unique_fd_test
