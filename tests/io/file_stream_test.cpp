#include "io/internal/file_stream.h"
#include "base/internal/crc32c.h"
#include "support/error_text.h"
#include "support/faulty_files.h"
#include "support/temporary_folder.h"

#include <cairn/base/file.h>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace cairn::io::file_stream_test {
namespace {

using cairn::testing::Fault;
using cairn::testing::FaultOutcome;
using cairn::testing::FaultyFiles;
using cairn::testing::TemporaryFolder;
using cairn::testing::with_every_fault;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

constexpr std::uint64_t limit = 1 << 30;

std::string text_of(std::size_t size) {
  std::string text(size, '\0');
  for (std::size_t i = 0; i < size; ++i) {
    text[i] = static_cast<char>((i * 2654435761U) >> 13U);
  }
  return text;
}

std::span<const std::byte> bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

/// Options with small blocks, so that small tests meet every boundary.
FileStream::Options small(std::uint64_t expected_size = 0) {
  return {.expected_size = expected_size, .block_size = 8192, .blocks = 3};
}

/// A file system without O_DIRECT, or one that takes it and then refuses.
class NoDirect : FileCalls {
 public:
  explicit NoDirect(bool opens) : opens_(opens), scope_(*this) {}

 private:
  int openat(int folder, const char* path, int flags, mode_t mode) override {
    if ((flags & O_DIRECT) != 0 && !opens_) {
      errno = EINVAL;
      return -1;
    }
    return FileCalls::openat(folder, path, flags, mode);
  }
  ssize_t pwrite(int fd, const void* data, std::size_t size, off_t offset)
      override {
    if ((::fcntl(fd, F_GETFL) & O_DIRECT) != 0) {
      errno = EINVAL;
      return -1;
    }
    return FileCalls::pwrite(fd, data, size, offset);
  }
  const bool opens_;
  const ReplacedFileCalls scope_;
};

TEST(FileStream, AnySizeInPiecesOfAnySize) {
  const TemporaryFolder folder;
  int number = 0;
  for (const std::size_t size :
       {0, 1, 4095, 4096, 4097, 8192, 24576, 24577, 200'001}) {
    for (const std::size_t piece : {977, 4096, 30'000, 300'000}) {
      for (const std::size_t expected : {std::size_t{0}, size, size + 9999}) {
        const std::string text = text_of(size);
        const auto path = folder / std::to_string(number++);
        FileStream file(path, small(expected));
        for (std::size_t at = 0; at < size; at += piece) {
          file.write(bytes(std::string_view(text).substr(at, piece)));
        }
        EXPECT_EQ(file.size(), size);
        file.finish();
        EXPECT_EQ(read_file(path, limit), text)
            << size << " by " << piece << ", expected " << expected;
      }
    }
  }
}

TEST(FileStream, MoreThanExpectedIsFine) {
  const TemporaryFolder folder;
  FileStream file(folder / "file", small(10'000));
  const std::string text = text_of(50'000);
  file.write(bytes(text));
  file.finish();
  EXPECT_EQ(read_file(folder / "file", limit), text);
}

TEST(FileStream, SumsWhatItWrites) {
  const TemporaryFolder folder;
  FileStream file(folder / "file", small());
  const std::string text = text_of(70'000);
  const auto first = bytes(text).first(20'001);
  const auto second = bytes(text).subspan(20'001);
  EXPECT_EQ(file.write_summed(first), crc32c(first));
  EXPECT_EQ(file.write_summed(second), crc32c(second));
  EXPECT_EQ(file.write_summed({}), 0);
  file.finish();
  EXPECT_EQ(read_file(folder / "file", limit), text);
}

TEST(FileStream, BytesCanBeMadeInPlace) {
  const TemporaryFolder folder;
  FileStream file(folder / "file", small());
  const std::string text = text_of(70'000);
  for (std::size_t at = 0; at < text.size();) {
    const std::span<std::byte> room = file.room();
    ASSERT_FALSE(room.empty());
    const std::size_t size =
        std::min({room.size(), text.size() - at, std::size_t{3001}});
    std::ranges::copy(bytes(text).subspan(at, size), room.begin());
    file.advance(size);
    at += size;
  }
  EXPECT_THROW(file.advance(8193), InternalError);
  file.finish();
  EXPECT_EQ(read_file(folder / "file", limit), text);
}

TEST(FileStream, WithoutDirectAccessTheSame) {
  const TemporaryFolder folder;
  for (const bool opens : {false, true}) {
    const NoDirect file_system(opens);
    const auto path = folder / (opens ? "refuses" : "has none");
    FileStream file(path, small());
    const std::string text = text_of(100'000);
    file.write(bytes(text));
    file.finish();
    EXPECT_EQ(file.access(), Access::buffered);
    EXPECT_EQ(read_file(path, limit), text);
  }
}

TEST(FileStream, LeavesWhatIsThereAlone) {
  const TemporaryFolder folder;
  const auto path = folder.write("file", "old");
  EXPECT_THAT(
      [&] { FileStream file(path); },
      ThrowsMessage<DataError>(path + ": cannot open: File exists"));
  EXPECT_EQ(read_file(path, limit), "old");
}

TEST(FileStream, UnfinishedIsRemoved) {
  const TemporaryFolder folder;
  {
    FileStream file(folder / "file", small());
    file.write(bytes(text_of(50'000)));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(FileStream, FinishedIsFinished) {
  const TemporaryFolder folder;
  FileStream file(folder / "file", small());
  file.finish();
  EXPECT_THROW(file.finish(), InternalError);
  EXPECT_THROW(file.write(bytes("late")), InternalError);
  EXPECT_EQ(read_file(folder / "file", limit), "");
}

TEST(FileStream, RefusesBlocksThatCannotBeDirect) {
  const TemporaryFolder folder;
  EXPECT_THROW(FileStream(folder / "file", {.block_size = 1000}), ConfigError);
  EXPECT_THROW(FileStream(folder / "file", {.blocks = 0}), ConfigError);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(FileStream, AFullDiskIsSaidAtTheStartIfTheSizeIsKnown) {
  const TemporaryFolder folder;
  EXPECT_THAT(
      [&] {
        FileStream(folder / "file", {.expected_size = std::uint64_t{1} << 60});
      },
      ThrowsMessage<DataError>(
          StartsWith((folder / "file").string() + ": cannot take room")));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(FileStream, AFailureIsSaidAgain) {
  const TemporaryFolder folder;
  const FaultyFiles faulty(
      folder.path(),
      {.at = 4, .kind = Fault::Kind::fails, .error = ENOSPC});
  FileStream file(folder / "file", small());
  const std::string text = text_of(100'000);
  const std::string first =
      error_text<DataError>([&] { file.write(bytes(text)); });
  EXPECT_THAT(first, StartsWith((folder / "file").string() + ": cannot write"));
  EXPECT_THAT(first, HasSubstr("No space left on device"));
  EXPECT_EQ(error_text<DataError>([&] { file.write(bytes(text)); }), first);
  EXPECT_EQ(error_text<DataError>([&] { file.finish(); }), first);
  EXPECT_EQ(error_text<DataError>([&] { file.finish(); }), first);
}

TEST(FileStream, WholeOrGoneWhateverFails) {
  const TemporaryFolder folder;
  const auto path = folder / "file";
  const std::string text = text_of(50'001);
  for (const std::size_t expected : {0U, 50'001U, 60'000U}) {
    with_every_fault(
        folder.path(),
        [&] { std::filesystem::remove(path); },
        [&] {
          FileStream file(path, small(expected));
          file.write(bytes(text));
          file.finish();
        },
        [&](const FaultOutcome& outcome) {
          if (outcome.killed) {
            return; // the next reader has to recognise the remains
          }
          EXPECT_EQ(std::filesystem::exists(path), !outcome.error);
          if (outcome.error) {
            EXPECT_THAT(*outcome.error, StartsWith(path.string() + ": cannot"));
            EXPECT_THAT(
                *outcome.error,
                AnyOf(
                    HasSubstr("Input/output error"),
                    HasSubstr("No space left on device")));
          } else {
            EXPECT_EQ(read_file(path, limit), text);
          }
        });
  }
}

} // namespace
} // namespace cairn::io::file_stream_test
