#include <cairn/base/file.h>

#include <cairn/base/error.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <unistd.h>

#include <array>
#include <fstream>
#include <string>
#include <thread>

#include "support/temporary_folder.h"

namespace cairn::file_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::filesystem::path written(
    const testing::TemporaryFolder& folder,
    const std::string& text) {
  const std::filesystem::path path = folder / "file";
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

TEST(ReadFile, ReadsAllBytes) {
  const testing::TemporaryFolder folder;
  for (const std::size_t size : {0, 1, 16383, 16384, 16385, 1000000}) {
    std::string text(size, 'x');
    if (size > 0) {
      text.back() = '\0';
    }
    EXPECT_EQ(read_file(written(folder, text), 1000000), text) << size;
  }
}

TEST(ReadFile, RefusesMoreThanTheLimit) {
  const testing::TemporaryFolder folder;
  const auto path = written(folder, "12345");
  EXPECT_EQ(read_file(path, 5), "12345");
  EXPECT_EQ(read_file(path, UINT64_MAX), "12345");
  EXPECT_THAT(
      [&] { read_file(path, 4); },
      ThrowsMessage<DataError>(
          AllOf(HasSubstr(path.string()), HasSubstr("at most 4 bytes"))));
  EXPECT_THROW(read_file(path, 0), DataError);
  EXPECT_THROW(read_file("/dev/zero", 100000), DataError);
}

TEST(ReadFile, ReadsWhatHasNoSize) {
  EXPECT_THAT(read_file("/proc/self/status", 1 << 20), HasSubstr("Pid:"));
  EXPECT_EQ(read_file("/dev/null", 10), "");
  // A shell's `<(command)` is such a path.
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const UniqueFd reading(ends[0]);
  UniqueFd writing(ends[1]);
  const std::string text(300000, 'p');
  std::thread writer([&] {
    write_all(writing.get(), std::as_bytes(std::span(text)), "pipe");
    writing.reset();
  });
  EXPECT_EQ(
      read_file("/proc/self/fd/" + std::to_string(reading.get()), 300000),
      text);
  writer.join();
}

TEST(ReadFile, WaitsForNoPipeAndReadsNoDevice) {
  const testing::TemporaryFolder folder;
  const auto pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(
      [&] { read_file(pipe, 10); },
      ThrowsMessage<DataError>(
          AllOf(HasSubstr(pipe.string()), HasSubstr("is a named pipe"))));
  EXPECT_THAT(
      [] { read_file("/dev/zero", 10); },
      ThrowsMessage<DataError>(HasSubstr("is a device")));
}

TEST(ReadFile, NamesPathAndReason) {
  const testing::TemporaryFolder folder;
  EXPECT_THAT(
      [&] { read_file(folder / "absent", 10); },
      ThrowsMessage<DataError>(AllOf(
          HasSubstr((folder / "absent").string()),
          HasSubstr("cannot open: No such file or directory"))));
  EXPECT_THAT(
      [&] { read_file(folder.path(), 10); },
      ThrowsMessage<DataError>(HasSubstr("cannot read: Is a directory")));
}

TEST(WriteAll, SaysHowFarItCame) {
  const std::string text(1000, 'x');
  const UniqueFd full = open_file("/dev/full", O_WRONLY);
  EXPECT_THAT(
      [&] {
        write_all(full.get(), std::as_bytes(std::span(text)), "/dev/full");
      },
      ThrowsMessage<DataError>(AllOf(
          HasSubstr("/dev/full: cannot write: No space left on device"),
          HasSubstr("0 of 1000 bytes written"),
          HasSubstr("free some space"))));
}

} // namespace
} // namespace cairn::file_test
