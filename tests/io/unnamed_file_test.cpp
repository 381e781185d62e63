#include "io/unnamed_file.h"
#include "support/temporary_folder.h"

#include <cairn/base/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

namespace cairn::io::detail::unnamed_file_test {
namespace {

using cairn::testing::TemporaryFolder;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

TEST(UnnamedFile, HasRoomButNoName) {
  for (const auto make : {open_unnamed, create_and_unlink}) {
    const TemporaryFolder folder;
    const UniqueFd file = make(folder.path());
    EXPECT_EQ(::write(file.get(), "text", 4), 4);
    char text[4] = {};
    EXPECT_EQ(::pread(file.get(), text, 4, 0), 4);
    EXPECT_EQ(text[3], 't');
    EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  }
}

TEST(UnnamedFile, LeftoversAreRemovedAndNothingElse) {
  const TemporaryFolder folder;
  folder.write(".cairn-nvme-a1b2c3", "");
  folder.write("cairn-nvme-mine", "mine");
  const UniqueFd file = create_and_unlink(folder.path());
  EXPECT_FALSE(std::filesystem::exists(folder / ".cairn-nvme-a1b2c3"));
  EXPECT_TRUE(std::filesystem::exists(folder / "cairn-nvme-mine"));
}

TEST(UnnamedFile, SaysWhyNot) {
  for (const auto make : {open_unnamed, create_and_unlink}) {
    EXPECT_THAT(
        [&] { make("/no/such/folder"); },
        ThrowsMessage<DataError>(StartsWith(
            "/no/such/folder: cannot make a file in this folder: No such file "
            "or directory")));
  }
}

} // namespace
} // namespace cairn::io::detail::unnamed_file_test
