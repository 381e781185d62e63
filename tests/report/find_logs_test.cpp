#include "report/find_logs.h"
#include "support/error_text.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

namespace cairn::report::find_logs_test {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::TemporaryFolder;

constexpr std::string_view record = "{\"step\":1,\"lm loss\":5}\n";

std::vector<std::string> names(const std::vector<FoundLog>& logs) {
  std::vector<std::string> result;
  for (const FoundLog& log : logs) {
    result.push_back(log.name);
  }
  return result;
}

TEST(FindLogs, TellsLogsFromTexts) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "run");
  folder.write("run/stories.jsonl", "{\"text\":\"step by step\"}\n");
  folder.write("run/metrics.jsonl", record);
  folder.write("run/notes.txt", record);
  folder.write("run/empty.jsonl", "");
  const auto logs = find_logs({folder / "run"});
  ASSERT_EQ(logs.size(), 1U);
  EXPECT_EQ(logs[0].name, "run");
  EXPECT_EQ(logs[0].path, folder / "run/metrics.jsonl");
  EXPECT_THAT(
      names(find_logs({folder / "run/metrics.jsonl"})),
      ElementsAre("run"));
}

TEST(FindLogs, OfAFolderOfRuns) {
  const TemporaryFolder folder;
  for (const char* run : {"b", "a", "none"}) {
    fs::create_directories(folder / "runs" / run);
  }
  folder.write("runs/a/log.jsonl", record);
  folder.write("runs/b/log.jsonl", record);
  EXPECT_THAT(names(find_logs({folder / "runs"})), ElementsAre("a", "b"));
  // The same log twice, and two logs in one folder.
  folder.write("runs/b/again.jsonl", record);
  EXPECT_THAT(
      names(find_logs(
          {folder / "runs/b", folder / "runs/a/../b", folder / "runs/a"})),
      ElementsAre("again", "log", "a"));
}

TEST(FindLogs, RunsOfOneNameAreToldApart) {
  const TemporaryFolder folder;
  for (const char* run : {"x/run", "y/run"}) {
    fs::create_directories(folder / run);
    folder.write(std::string(run) + "/log.jsonl", record);
  }
  const auto found = names(find_logs({folder / "x/run", folder / "y/run"}));
  EXPECT_THAT(
      found,
      ElementsAre(HasSubstr("x/run/log.jsonl"), HasSubstr("y/run/log.jsonl")));
}

TEST(FindLogs, SaysWhatIsNotThere) {
  const TemporaryFolder folder;
  EXPECT_THAT(
      error_text<DataError>([&] { find_logs({folder / "no"}); }),
      HasSubstr("no: there is no such file or folder"));
  EXPECT_THAT(
      error_text<DataError>([] { find_logs({"/dev/null"}); }),
      HasSubstr("neither a folder nor a log"));
  EXPECT_THAT(find_logs({folder.path()}), IsEmpty());
}

} // namespace
} // namespace cairn::report::find_logs_test
