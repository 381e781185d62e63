#include "engine/save/slow_write_warning.h"

#include <cairn/base/file.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <string>

namespace cairn::slow_write_warning_test {
namespace {

TEST(SlowWriteWarning, NamesWhatTakesLong) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const UniqueFd reading(ends[0]);
  const UniqueFd writing(ends[1]);
  std::string text;
  {
    const SlowWriteWarning warning(
        Logger({.fd = writing.get()}),
        "rank 3 has been writing ckpt/x",
        std::chrono::milliseconds(1));
    std::array<char, 1000> buffer{};
    const ssize_t got = ::read(reading.get(), buffer.data(), buffer.size());
    text.assign(buffer.data(), static_cast<std::size_t>(got));
  }
  EXPECT_THAT(
      text,
      ::testing::HasSubstr("warning: rank 3 has been writing ckpt/x for "));
}

} // namespace
} // namespace cairn::slow_write_warning_test
