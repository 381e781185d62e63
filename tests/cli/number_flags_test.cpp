// Every flag of every command that takes a number, found through --help.

#include "support/command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <sstream>
#include <string>
#include <vector>

namespace cairn::testing::number_flags_test {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

Result cairn(Words words) {
  words.insert(words.begin(), CAIRN_BINARY_DIR "/bin/cairn");
  return run(words);
}

const std::vector<Words>& commands() {
  static const std::vector<Words> all{
      {"data", "clean"},
      {"data", "download"},
      {"data", "index"},
      {"data", "inspect"},
      {"data", "sample-corpus"},
      {"data", "verify"},
      {"data", "wiki"},
      {"preprocess"},
      {"schedule", "compare"},
      {"schedule", "show"},
      {"tokenize"},
      {"train-tokenizer"},
  };
  return all;
}

/// The first spelling of each flag: "--workers" of "  --workers, --processes
/// N".
std::vector<std::string> number_flags(Words command) {
  command.push_back("--help");
  std::istringstream help(cairn(command).out);
  const std::regex flag(R"(^  (--[a-z-]+)(?:, --[a-z-]+)* N(?:$| .*))");
  std::vector<std::string> flags;
  std::smatch match;
  for (std::string line; std::getline(help, line);) {
    if (std::regex_match(line, match, flag)) {
      flags.push_back(match[1]);
    }
  }
  return flags;
}

Result with_value(Words command, const std::string& flag, const char* value) {
  command.insert(command.end(), {flag, value});
  return cairn(command);
}

TEST(NumberFlags, TakeNoNegativeNumberForACount) {
  std::size_t checked = 0;
  for (const Words& command : commands()) {
    for (const std::string& flag : number_flags(command)) {
      if (flag == "--heuristic-iter" || flag == "--null-tokenizer-pad-id") {
        continue; // -1 is all of them, and none
      }
      const Result result = with_value(command, flag, "-1");
      EXPECT_EQ(result.code, 2) << command.back() << ' ' << flag;
      EXPECT_THAT(
          result.err,
          AnyOf(HasSubstr(flag + ": "), HasSubstr(flag + " ")))
          << command.back();
      EXPECT_THAT(result.err, HasSubstr("-1")) << command.back() << ' ' << flag;
      ++checked;
    }
  }
  EXPECT_GT(checked, 30U);
}

TEST(NumberFlags, TakeNothingButNumbers) {
  for (const Words& command : commands()) {
    for (const std::string& flag : number_flags(command)) {
      for (const char* value : {"99999999999999999999999", "7x", "many"}) {
        if (flag == "--mid-level-dataset-surplus" && *value == '9') {
          continue; // a fraction has no largest
        }
        const Result result = with_value(command, flag, value);
        EXPECT_EQ(result.code, 2) << command.back() << ' ' << flag;
        EXPECT_THAT(result.err, HasSubstr(value))
            << command.back() << ' ' << flag;
      }
    }
  }
}

} // namespace
} // namespace cairn::testing::number_flags_test
