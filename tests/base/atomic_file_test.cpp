#include <cairn/base/file.h>

#include <cairn/base/error.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "support/child_process.h"
#include "support/names_in.h"
#include "support/temporary_folder.h"

namespace cairn::atomic_file_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::names_in;
using testing::run_in_child;
using testing::TemporaryFolder;
using ::testing::ThrowsMessage;

constexpr std::uint64_t limit = 64 << 20;

TEST(AtomicFile, ReplacesAtCommitAndNotBefore) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "file", "old");
  {
    AtomicFile file(folder / "file");
    file.write("new");
    file.write(" content");
    EXPECT_EQ(file.size(), 11);
    EXPECT_EQ(read_file(folder / "file", limit), "old");
    file.commit();
  }
  EXPECT_EQ(read_file(folder / "file", limit), "new content");
  EXPECT_THAT(names_in(folder.path()), ElementsAre("file"));
}

TEST(AtomicFile, WithoutCommitNothingChanges) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "file", "old");
  {
    AtomicFile file(folder / "file");
    file.write(std::string(1 << 20, 'n'));
  }
  EXPECT_EQ(read_file(folder / "file", limit), "old");
  EXPECT_THAT(names_in(folder.path()), ElementsAre("file"));
}

TEST(AtomicFile, KeepsTheOrderOfSmallAndLargeWrites) {
  const TemporaryFolder folder;
  std::string all;
  AtomicFile file(folder / "file");
  for (const std::size_t size :
       {1U, 1000U, 262143U, 1U, 262144U, 3U, 262145U, 1000000U, 0U, 7U}) {
    const std::string piece(size, static_cast<char>('a' + all.size() % 26));
    file.write(piece);
    all += piece;
  }
  file.commit();
  EXPECT_EQ(file.size(), all.size());
  EXPECT_EQ(read_file(folder / "file", limit), all);
}

TEST(AtomicFile, NewFilesFollowTheUmaskAndOldOnesKeepTheirMode) {
  const TemporaryFolder folder;
  const int status = run_in_child([&] {
    ::umask(027);
    write_file_atomically(folder / "new", "x");
    ::chmod((folder / "new").c_str(), 0604);
    struct stat first {};
    ::stat((folder / "new").c_str(), &first);
    write_file_atomically(folder / "new", "y");
    write_file_atomically(folder / "other", "x");
    struct stat second {};
    struct stat other {};
    ::stat((folder / "new").c_str(), &second);
    ::stat((folder / "other").c_str(), &other);
    return (second.st_mode & 0777) == 0604 && (other.st_mode & 0777) == 0640 &&
            first.st_ino != second.st_ino
        ? 0
        : 1;
  });
  EXPECT_EQ(status, 0);
}

TEST(AtomicFile, FollowsALink) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "real", "old");
  std::filesystem::create_symlink("real", folder / "link");
  write_file_atomically(folder / "link", "new");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(read_file(folder / "real", limit), "new");
}

TEST(AtomicFile, TakesTheLongestName) {
  const TemporaryFolder folder;
  const std::string name(255, 'n');
  write_file_atomically(folder / name, "x");
  EXPECT_THAT(names_in(folder.path()), ElementsAre(name));
  EXPECT_THAT(
      [&] { write_file_atomically(folder / (name + "n"), "x"); },
      ThrowsMessage<DataError>(HasSubstr("File name too long")));
  EXPECT_THAT(names_in(folder.path()), ElementsAre(name));
}

TEST(AtomicFile, RefusesWhatIsNoRegularFile) {
  const TemporaryFolder folder;
  EXPECT_THROW(AtomicFile("/dev/null"), DataError);
  EXPECT_THROW(AtomicFile(folder.path()), DataError);
  EXPECT_THROW(AtomicFile(folder.path() / ""), DataError);
  EXPECT_THROW(AtomicFile(""), DataError);
  EXPECT_THROW(AtomicFile(folder / ".."), DataError);
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST(AtomicFile, NamesTheMissingFolder) {
  const TemporaryFolder folder;
  EXPECT_THAT(
      [&] { AtomicFile(folder / "absent/file"); },
      ThrowsMessage<DataError>(AllOf(
          HasSubstr((folder / "absent").string()),
          HasSubstr("No such file or directory"))));
}

TEST(AtomicFile, NamesTheMissingPermission) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "file", "old");
  ::chmod(folder.path().c_str(), 0555);
  const int status = run_in_child([&] {
    // Root may write anywhere, so become someone else.
    if (::geteuid() == 0 && ::setuid(65534) != 0) {
      return 2;
    }
    try {
      write_file_atomically(folder / "file", "new");
    } catch (const DataError& error) {
      const std::string text = error.what();
      return text.find("Permission denied") != text.npos &&
              text.find("check the permissions") != text.npos
          ? 0
          : 3;
    }
    return 1;
  });
  EXPECT_EQ(status, 0);
  ::chmod(folder.path().c_str(), 0755);
  EXPECT_EQ(read_file(folder / "file", limit), "old");
}

TEST(AtomicFile, TheOldFileSurvivesALackOfRoom) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "file", "old");
  const int status = run_in_child([&] {
    // A limit on file sizes is a full disk that needs no disk to be filled: the
    // first write(2) is short, the next one fails.
    ::signal(SIGXFSZ, SIG_IGN);
    const struct rlimit small { 300000, 300000 };
    if (::setrlimit(RLIMIT_FSIZE, &small) != 0) {
      return 2;
    }
    AtomicFile file(folder / "file");
    try {
      file.write(std::string(1000000, 'n'));
      return 1;
    } catch (const DataError& error) {
      const std::string text = error.what();
      if (text.find("File too large") == text.npos ||
          text.find("300000 of 1000000 bytes written") == text.npos ||
          text.find((folder / "file").string()) != 0) {
        return 3;
      }
    }
    if (names_in(folder.path()) != std::vector<std::string>{"file"}) {
      return 4;
    }
    try {
      file.commit(); // must not bring the torn content into place
    } catch (const InternalError&) {
      return 0;
    }
    return 5;
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(read_file(folder / "file", limit), "old");
}

TEST(AtomicFile, ALackOfRoomFoundAtCommitLosesNothing) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "file", "old");
  const int status = run_in_child([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const struct rlimit small { 10, 10 };
    if (::setrlimit(RLIMIT_FSIZE, &small) != 0) {
      return 2;
    }
    AtomicFile file(folder / "file");
    file.write("more than ten bytes"); // still in the buffer
    try {
      file.commit();
    } catch (const DataError& error) {
      const std::string text = error.what();
      return text.find("10 of 19 bytes written") != text.npos ? 0 : 3;
    }
    return 1;
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(read_file(folder / "file", limit), "old");
  EXPECT_THAT(names_in(folder.path()), ElementsAre("file"));
}

TEST(AtomicFile, AKilledWriterLeavesTheOldFile) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "file", "old");
  const int status = run_in_child([&] {
    AtomicFile file(folder / "file");
    file.write(std::string(1 << 20, 'n'));
    return ::raise(SIGKILL);
  });
  EXPECT_EQ(status, 128 + SIGKILL);
  EXPECT_EQ(read_file(folder / "file", limit), "old");
  const UniqueFd nameless(
      ::open(folder.path().c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666));
  if (nameless) { // as on every file system but a few
    EXPECT_THAT(names_in(folder.path()), ElementsAre("file"));
  }
}

TEST(AtomicFile, IsUsedOnce) {
  const TemporaryFolder folder;
  AtomicFile file(folder / "file");
  file.commit();
  EXPECT_THROW(file.commit(), InternalError);
  EXPECT_THROW(file.write("late"), InternalError);
  EXPECT_EQ(read_file(folder / "file", limit), "");
}

} // namespace
} // namespace cairn::atomic_file_test
