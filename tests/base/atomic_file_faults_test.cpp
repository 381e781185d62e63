#include "support/faulty_files.h"
#include "support/temporary_folder.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <vector>

namespace cairn::atomic_file_faults_test {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using testing::FaultOutcome;
using testing::FaultyFiles;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using testing::TemporaryFolder;
using testing::with_every_fault;

constexpr std::uint64_t limit = 64 << 20;
const std::string old_content = "old";
// Takes several writes: more than the buffer holds, and then some in the
// buffer.
const std::string new_content = std::string(700'000, 'n') + "ew";

/// A file system that has no files without a name.
class NamesOnly : FileCalls {
 public:
  NamesOnly() : scope_(*this) {}

 private:
  int openat(int folder, const char* path, int flags, mode_t mode) override {
    if ((flags & O_TMPFILE) == O_TMPFILE) {
      errno = EOPNOTSUPP;
      return -1;
    }
    return FileCalls::openat(folder, path, flags, mode);
  }
  const ReplacedFileCalls scope_;
};

std::vector<std::string> others_in(const TemporaryFolder& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    if (entry.path().filename() != "file") {
      names.push_back(entry.path().filename().string());
    }
  }
  return names;
}

void replace(const std::filesystem::path& path) {
  AtomicFile file(path);
  file.write(std::string_view(new_content).substr(0, 500'000));
  file.write(std::string_view(new_content).substr(500'000));
  file.commit();
}

void check_every_fault(bool killed_may_leave_a_temporary) {
  const TemporaryFolder folder;
  const auto path = folder / "file";
  with_every_fault(
      folder.path(),
      [&] {
        for (const auto& name : others_in(folder)) {
          std::filesystem::remove(folder / name);
        }
        folder.write("file", old_content);
      },
      [&] { replace(path); },
      [&](const FaultOutcome& outcome) {
        const std::string content = read_file(path, limit);
        EXPECT_TRUE(content == old_content || content == new_content)
            << content.size() << " bytes";
        if (outcome.error) {
          EXPECT_THAT(*outcome.error, StartsWith(path.string() + ": cannot "));
          EXPECT_THAT(
              *outcome.error,
              AnyOf(
                  HasSubstr("Input/output error"),
                  HasSubstr("No space left on device")));
          // Only the folder's fsync comes after the rename.
          EXPECT_EQ(content == new_content, outcome.call == "fsync .");
        } else if (!outcome.killed) {
          EXPECT_EQ(content, new_content);
        }
        const auto left = others_in(folder);
        const bool linked = outcome.call == "rename file";
        if (outcome.killed && (killed_may_leave_a_temporary || linked)) {
          EXPECT_LE(left.size(), 1);
        } else {
          EXPECT_THAT(left, ElementsAre());
        }
      });
}

TEST(AtomicFileFaults, OldOrNewWhateverFails) {
  check_every_fault(false);
}

TEST(AtomicFileFaults, OldOrNewWhateverFailsWhereTemporariesHaveNames) {
  const NamesOnly file_system;
  check_every_fault(true);
}

TEST(AtomicFileFaults, EveryStepIsSeen) {
  const TemporaryFolder folder;
  const NamesOnly file_system;
  const FaultyFiles counting(folder.path());
  replace(folder / "file");
  const auto calls = counting.calls();
  ASSERT_EQ(calls.size(), 7);
  EXPECT_EQ(calls[0], "open ."); // without a name: refused
  EXPECT_THAT(calls[1], StartsWith("open .file."));
  EXPECT_THAT(calls[2], StartsWith("write .file."));
  EXPECT_THAT(calls[3], StartsWith("write .file."));
  EXPECT_THAT(calls[4], StartsWith("fsync .file."));
  EXPECT_EQ(calls[5], "rename file");
  EXPECT_EQ(calls[6], "fsync .");
}

TEST(FaultyFiles, OthersAreLeftAlone) {
  const TemporaryFolder folder;
  const TemporaryFolder other;
  const FaultyFiles faulty(
      folder.path(),
      {.at = 1, .kind = testing::Fault::Kind::stays_full, .error = ENOSPC});
  EXPECT_THROW(replace(folder / "file"), DataError);
  EXPECT_TRUE(faulty.fault_met());
  replace(other / "file");
  EXPECT_EQ(read_file(other / "file", limit), new_content);
}

TEST(FaultyFiles, EndsWithItsScope) {
  const TemporaryFolder folder;
  {
    const FaultyFiles faulty(
        folder.path(),
        {.at = 1, .kind = testing::Fault::Kind::stays_full, .error = ENOSPC});
    EXPECT_THROW(replace(folder / "file"), DataError);
  }
  replace(folder / "file");
  EXPECT_EQ(read_file(folder / "file", limit), new_content);
}

} // namespace
} // namespace cairn::atomic_file_faults_test
