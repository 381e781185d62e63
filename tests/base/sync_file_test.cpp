#include "base/internal/sync_file.h"

#include "base/internal/file_calls.h"
#include "support/error_text.h"
#include "support/temporary_folder.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <future>

namespace cairn::sync_file_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// A disk that takes nothing until it is told to go on.
class HungDisk final : FileCalls {
 public:
  HungDisk() : scope_(*this) {}
  void go_on() {
    go_on_.set_value();
    ended_.get_future().wait();
  }

 private:
  int fsync(int fd) override {
    go_on_.get_future().wait();
    const int result = FileCalls::fsync(fd);
    ended_.set_value();
    return result;
  }

  std::promise<void> go_on_;
  std::promise<void> ended_;
  ReplacedFileCalls scope_;
};

TEST(SyncFile, GivesUpOnADiskThatHangs) {
  const testing::TemporaryFolder folder;
  const UniqueFd file = open_file(folder / "file", O_RDWR | O_CREAT);
  HungDisk disk;
  ::setenv(disk_timeout_variable, "1", 1);
  EXPECT_THAT(
      error_text<DataError>([&] { sync_file(file.get(), folder / "file"); }),
      AllOf(
          HasSubstr((folder / "file").string()),
          HasSubstr("the disk has not taken it in time (1 s, the limit of "
                    "CAIRN_DISK_TIMEOUT)")));
  ::unsetenv(disk_timeout_variable);
  disk.go_on();
}

TEST(SyncFile, RefusesALimitThatIsNone) {
  const testing::TemporaryFolder folder;
  const UniqueFd file = open_file(folder / "file", O_RDWR | O_CREAT);
  ::setenv(disk_timeout_variable, "soon", 1);
  EXPECT_THAT(
      error_text<ConfigError>([&] { sync_file(file.get(), folder / "file"); }),
      HasSubstr("CAIRN_DISK_TIMEOUT: not a number of seconds (soon)"));
  ::unsetenv(disk_timeout_variable);
}

} // namespace
} // namespace cairn::sync_file_test
