#include "support/python.h"

#include <gtest/gtest.h>
#include <stdio.h>
#include <sys/wait.h>

#include <array>
#include <cstdlib>

namespace cairn::testing {

void run_python_tool(
    const std::string& script,
    const std::vector<std::string>& arguments) {
  const char* named = std::getenv("CAIRN_PYTHON");
  std::string line = named == nullptr ? "python3" : named;
  line += " '" CAIRN_SOURCE_DIR "/tools/" + script + "'";
  for (const std::string& argument : arguments) {
    line += " '" + argument + "'";
  }
  // Imports alone take longer than support/command.h waits for output.
  FILE* const pipe = ::popen((line + " 2>&1").c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string output;
  std::array<char, 4096> buffer{};
  while (const auto got = ::fread(buffer.data(), 1, buffer.size(), pipe)) {
    output.append(buffer.data(), got);
  }
  const int code = WEXITSTATUS(::pclose(pipe));
  if (code == 77 || (code == 127 && named == nullptr)) {
    GTEST_SKIP() << "CAIRN_PYTHON names no Python that can check this: "
                 << output;
  }
  EXPECT_EQ(code, 0) << output;
}

} // namespace cairn::testing
