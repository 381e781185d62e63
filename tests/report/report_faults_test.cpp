#include "report/internal/report.h"
#include "support/command.h"
#include "support/faulty_files.h"
#include "support/temporary_folder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

// Every system call that changes a file fails once, in turn, while a report is
// written.

namespace cairn::report::report_faults_test {
namespace {

namespace fs = std::filesystem;
using cairn::testing::FaultOutcome;
using cairn::testing::read_text;
using cairn::testing::TemporaryFolder;

TEST(ReportFaults, LeaveTheOldPageOrAWholeNewOne) {
  const TemporaryFolder logs;
  const TemporaryFolder pages;
  const Places first{logs.write(
      "zebra.jsonl",
      R"({"step": 1, "lm loss": 2.5})"
      "\n")};
  const Places second{logs.write(
      "quagga.jsonl",
      R"({"step": 1, "lm loss": 1.5})"
      "\n")};
  const fs::path page = pages / "report.html";
  cairn::testing::with_every_fault(
      pages.path(),
      [&] { write_report(first, page); },
      [&] { write_report(second, page); },
      [&](const FaultOutcome& outcome) {
        const std::string text = read_text(page);
        const bool is_old = text.find("zebra") != std::string::npos;
        const bool is_new = text.find("quagga") != std::string::npos;
        EXPECT_NE(is_old, is_new);
        EXPECT_TRUE(is_new || outcome.error || outcome.killed);
        EXPECT_NE(text.find("</html>"), std::string::npos) << "torn";
      });
}

} // namespace
} // namespace cairn::report::report_faults_test
