#include "io/internal/preflight.h"
#include "support/child_process.h"
#include "support/temporary_folder.h"

#include <cairn/base/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

namespace cairn::io::preflight_test {
namespace {

using cairn::testing::run_in_child;
using cairn::testing::TemporaryFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

TEST(Preflight, TellsWhatTheFolderIs) {
  const TemporaryFolder folder;
  const auto found = check_nvme_folder(folder.path(), 1'000'000, {}, 1 << 20);
  EXPECT_EQ(found.needed_bytes, 1'000'000U);
  EXPECT_GT(found.free_bytes, 1'000'000U);
  EXPECT_EQ(found.probe_bytes, 1U << 20);
  EXPECT_GT(found.write_rate, 1e3);
  EXPECT_GT(found.read_rate, 1e3);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  EXPECT_THAT(
      to_string(found),
      AllOf(
          StartsWith(folder.path().string() + ": 1.00 MB needed, "),
          HasSubstr(" free; "),
          HasSubstr(to_string(found.engine)),
          HasSubstr(to_string(found.access)),
          MatchesRegex(".*; writes [^,]*B/s, reads .*B/s .probe of 1.05 MB.")));
}

TEST(Preflight, WorksInMemoryToo) {
  if (!std::filesystem::is_directory("/dev/shm")) {
    GTEST_SKIP() << "there is no /dev/shm";
  }
  const auto found = check_nvme_folder("/dev/shm", 0, {}, 1 << 20);
  EXPECT_GT(found.read_rate, 1e3);
}

TEST(Preflight, RefusesWhatIsNoFolder) {
  const TemporaryFolder folder;
  EXPECT_THAT(
      [&] { check_nvme_folder(folder / "absent", 0, {}); },
      ThrowsMessage<ConfigError>(
          (folder / "absent").string() +
          ": there is no such folder; set \"nvme_path\" to a folder on a fast "
          "local disk"));
  EXPECT_THAT(
      [&] { check_nvme_folder(folder.write("file", ""), 0, {}); },
      ThrowsMessage<ConfigError>(HasSubstr("this is not a folder")));
}

TEST(Preflight, SaysHowMuchSpaceIsMissing) {
  const TemporaryFolder folder;
  EXPECT_THAT(
      [&] { check_nvme_folder(folder.path(), 4'000'000'000'000'000'000U, {}); },
      ThrowsMessage<ConfigError>(AllOf(
          StartsWith(
              folder.path().string() +
              ": too little space for what is to be stored here (4.00 EB "
              "needed, "),
          HasSubstr(" free, "),
          HasSubstr(" short); free some space, or set \"nvme_path\""))));
}

TEST(Preflight, RefusesAFolderThatCannotBeWrittenTo) {
  const TemporaryFolder folder;
  ::chmod(folder.path().c_str(), 0555);
  const int status = run_in_child([&] {
    constexpr unsigned nobody = 65534;
    if (::geteuid() == 0 && (::setgid(nobody) != 0 || ::setuid(nobody) != 0)) {
      return 2;
    }
    try {
      check_nvme_folder(folder.path(), 0, {});
    } catch (const ConfigError& error) {
      const std::string text = error.what();
      return text ==
              folder.path().string() +
                  ": cannot make a file in this folder: Permission denied; "
                  "check the permissions of the file and of its folder"
          ? 0
          : 3;
    }
    return 1;
  });
  EXPECT_EQ(status, 0);
}

} // namespace
} // namespace cairn::io::preflight_test
