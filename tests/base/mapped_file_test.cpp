#include <cairn/base/mapped_file.h>

#include <cairn/base/error.h>
#include <cairn/base/file.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>
#include <string_view>
#include <utility>

#include "support/temporary_folder.h"

namespace cairn::mapped_file_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::TemporaryFolder;
using ::testing::ThrowsMessage;

std::string_view text(const MappedFile& file) {
  return {
      reinterpret_cast<const char*>(file.bytes().data()),
      file.bytes().size()};
}

TEST(MappedFile, ShowsTheWholeFile) {
  const TemporaryFolder folder;
  const std::string content = std::string(100000, 'a') + "end";
  write_file_atomically(folder / "file", content);
  for (const auto advice :
       {MappedFile::Advice::normal,
        MappedFile::Advice::sequential,
        MappedFile::Advice::random,
        MappedFile::Advice::will_need}) {
    const MappedFile file(folder / "file", advice);
    EXPECT_EQ(text(file), content);
    file.advise(MappedFile::Advice::normal);
  }
}

TEST(MappedFile, AnEmptyFileIsAnEmptySpan) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "file", "");
  const MappedFile file(folder / "file", MappedFile::Advice::will_need);
  EXPECT_TRUE(file.bytes().empty());
}

TEST(MappedFile, KeepsTheOldContentWhenReplaced) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "file", "old content");
  const MappedFile file(folder / "file");
  write_file_atomically(folder / "file", "new");
  EXPECT_EQ(text(file), "old content");
}

TEST(MappedFile, Moves) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "a", "first");
  write_file_atomically(folder / "b", "second");
  MappedFile a(folder / "a");
  MappedFile moved(std::move(a));
  EXPECT_TRUE(a.bytes().empty()); // NOLINT(bugprone-use-after-move): specified
  moved = MappedFile(folder / "b");
  EXPECT_EQ(text(moved), "second");
}

TEST(MappedFile, NamesWhatIsWrong) {
  const TemporaryFolder folder;
  EXPECT_THAT(
      [&] { MappedFile(folder / "absent"); },
      ThrowsMessage<DataError>(AllOf(
          HasSubstr((folder / "absent").string()),
          HasSubstr("No such file or directory"))));
  EXPECT_THAT(
      [&] { MappedFile{folder.path()}; },
      ThrowsMessage<DataError>(HasSubstr("not a regular file")));
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(
      [&] { MappedFile(folder / "pipe"); },
      ThrowsMessage<DataError>(HasSubstr("not a regular file")));
}

} // namespace
} // namespace cairn::mapped_file_test
