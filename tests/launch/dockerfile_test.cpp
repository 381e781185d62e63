#include "launch/launched.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <sstream>
#include <string>
#include <vector>

// The image cannot be built where the tests run, so these check the facts that
// can be known without Docker.

namespace cairn::launch::fixtures::dockerfile_test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const std::filesystem::path root = CAIRN_SOURCE_DIR;

/// The instructions, with continued lines joined and comments left out.
std::vector<std::vector<std::string>> instructions() {
  std::vector<std::vector<std::string>> result;
  std::istringstream text(read_text(root / "Dockerfile"));
  std::string line;
  while (std::getline(text, line)) {
    while (line.ends_with('\\')) {
      std::string more;
      std::getline(text, more);
      line.back() = ' ';
      line += more;
    }
    if (line.empty() || line.front() == '#') {
      continue;
    }
    std::istringstream words(line);
    std::string name;
    words >> name >> std::ws;
    std::string rest;
    std::getline(words, rest);
    result.push_back({name, rest});
  }
  return result;
}

TEST(Dockerfile, HasKnownInstructions) {
  const std::set<std::string> known =
      {"ARG", "FROM", "COPY", "WORKDIR", "ENV", "RUN", "ENTRYPOINT", "CMD"};
  ASSERT_FALSE(instructions().empty());
  for (const auto& instruction : instructions()) {
    EXPECT_TRUE(known.count(instruction[0])) << instruction[0];
  }
}

TEST(Dockerfile, RunsWhatAShellCanRead) {
  for (const auto& instruction : instructions()) {
    if (instruction[0] == "RUN") {
      EXPECT_EQ(run({"sh", "-n", "-c", instruction[1]}).code, 0)
          << instruction[1];
    }
  }
}

TEST(Dockerfile, CopiesWhatIsThere) {
  std::set<std::string> stages;
  for (const auto& instruction : instructions()) {
    std::istringstream words(instruction[1]);
    std::string first;
    words >> first;
    if (instruction[0] == "FROM") {
      std::string as;
      std::string name;
      if (words >> as >> name) {
        EXPECT_EQ(as, "AS");
        stages.insert(name);
      }
    } else if (instruction[0] == "COPY") {
      if (first.starts_with("--from=")) {
        EXPECT_TRUE(stages.count(first.substr(7))) << first;
      } else {
        EXPECT_TRUE(std::filesystem::exists(root / first)) << first;
      }
    }
  }
}

/// The names of the shared libraries that a program loads.
std::vector<std::string> libraries_of(const std::string& program) {
  std::istringstream lines(run({"ldd", program}).out);
  std::vector<std::string> names;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    std::string arrow;
    if (words >> name >> arrow && arrow == "=>") {
      names.push_back(name);
    }
  }
  return names;
}

TEST(Dockerfile, InstallsThePackagesOfTheLibrariesThatProgramsLoad) {
  if (run({"sh", "-c", "command -v dpkg-query"}).code != 0) {
    GTEST_SKIP() << "not a Debian machine";
  }
  const std::string program = LAUNCH_PROGRAM;
  const auto packages = run(
      {(root / "tools/runtime_packages.sh").string(),
       CAIRN_BINARY_DIR,
       program});
  ASSERT_EQ(packages.code, 0) << packages.err;
  const auto files =
      run({"sh", "-c", "echo \"$0\" | xargs dpkg-query -L", packages.out});
  const auto libraries = libraries_of(program);
  EXPECT_THAT(libraries, Not(IsEmpty()));
  for (const auto& library : libraries) {
    EXPECT_THAT(files.out, HasSubstr("/" + library + "\n"));
  }

  bool listed = false;
  bool copied = false;
  bool installed = false;
  for (const auto& instruction : instructions()) {
    const std::string& words = instruction[1];
    listed = listed || words.find("tools/install.sh") != std::string::npos;
    copied = copied || words.starts_with("--from=build");
    installed = installed ||
        (copied && words.find("$(cat /opt/cairn/packages)") != words.npos);
  }
  EXPECT_TRUE(listed && copied && installed);
}

TEST(Dockerfile, GivesTheDeepSpeedJobItsProgram) {
  for (const auto& instruction : instructions()) {
    if (instruction[0] == "RUN" &&
        instruction[1].find("deepspeed") != std::string::npos) {
      const auto start = instruction[1].find("printf");
      const auto end = instruction[1].find(" > ");
      const auto printed =
          run({"sh", "-c", instruction[1].substr(start, end - start)});
      EXPECT_EQ(printed.out, "#!/bin/sh\nexec cairn launch \"$@\"\n");
      return;
    }
  }
  ADD_FAILURE() << "no program called deepspeed is made";
}

} // namespace
} // namespace cairn::launch::fixtures::dockerfile_test
