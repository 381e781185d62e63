#pragma once

#include "support/command.h"
#include "support/temporary_folder.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string>

namespace cairn::testing {

/// Chromium without a window, if it is installed (dependencies.txt).
class Browser {
 public:
  static std::optional<std::string> find() {
    std::istringstream folders(::getenv("PATH") ? ::getenv("PATH") : "");
    for (std::string folder; std::getline(folders, folder, ':');) {
      for (const char* name :
           {"chromium", "chromium-browser", "google-chrome"}) {
        const auto program = std::filesystem::path(folder) / name;
        if (std::filesystem::exists(program)) {
          return program.string();
        }
      }
    }
    return std::nullopt;
  }

  struct Seen {
    std::string document; ///< the page after its scripts ran
    std::string console;  ///< lines that scripts or the browser wrote there
  };

  /// Opens the address and looks at it after so many milliseconds of the page's
  /// time.
  Seen look(const std::string& address, int width, int milliseconds = 3000) {
    const Result result = run(
        {*find(),
         "--headless",
         "--no-sandbox",
         "--disable-gpu",
         "--disable-dev-shm-usage",
         "--no-first-run",
         "--user-data-dir=" + (folder_ / "profile").string(),
         "--enable-logging=stderr",
         "--window-size=" + std::to_string(width) + ",2000",
         "--virtual-time-budget=" + std::to_string(milliseconds),
         "--dump-dom",
         address});
    const auto begin =
        std::min(result.out.find("<div id=\"page\">"), result.out.size());
    Seen seen{
        .document = result.out.substr(
            begin,
            result.out.find("<script type=\"application/json\"", begin) -
                begin)};
    std::istringstream lines(result.err);
    for (std::string line; std::getline(lines, line);) {
      if (line.find(":CONSOLE") != line.npos) {
        seen.console += line + "\n";
      }
    }
    return seen;
  }

 private:
  TemporaryFolder folder_;
};

/// Skips tests without a browser, but never where changes are judged.
class BrowserTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (Browser::find()) {
      return;
    }
    const char* missing = "no Chromium here: install the package chromium";
    if (::getenv("CI") != nullptr) {
      FAIL() << missing;
    }
    GTEST_SKIP() << missing;
  }
};

} // namespace cairn::testing
