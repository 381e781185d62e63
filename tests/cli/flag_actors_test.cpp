// The table of flags says which commands act on a flag. Commands with a parser
// of their own must agree with it.

#include "config/internal/flag.h"
#include "support/command.h"

#include <cairn/text/tokenizer.h>

#include <gtest/gtest.h>

#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::cli::flag_actors_test {
namespace {

using config::Actor;
using config::Flag;

const std::string cairn_program = CAIRN_BINARY_DIR "/bin/cairn";

/// The flags of the table that the help of the command lists, except those that
/// it calls not needed.
std::set<std::string_view> listed_flags(const std::string& command) {
  const auto result = testing::run({cairn_program, command, "--help"});
  std::set<std::string_view> found;
  std::istringstream help(result.out);
  for (std::string line; std::getline(help, line);) {
    if (!line.starts_with("  --") || line.ends_with("not needed here")) {
      continue;
    }
    std::istringstream words(line);
    for (std::string word; words >> word && word.starts_with("--");) {
      if (word.ends_with(",")) {
        word.pop_back();
      }
      if (const Flag* flag = config::find_flag(word)) {
        found.insert(flag->name);
      }
    }
  }
  return found;
}

std::set<std::string_view> flags_of(Actor command) {
  std::set<std::string_view> flags;
  for (const Flag& flag : config::flag_table()) {
    if (flag.actors.contains(command)) {
      flags.insert(flag.name);
    }
  }
  return flags;
}

/// `text` knows the tokenizers, and the table of flags, which may not use it,
/// names them again.
TEST(FlagActors, TheTableNamesTheTokenizersThatThereAre) {
  std::set<std::string> named;
  for (const std::string_view type :
       config::words_in(config::find_flag("--tokenizer-type")->rules.choices)) {
    named.emplace(type);
  }
  const std::vector<std::string> types = text::tokenizer_types();
  EXPECT_EQ(named, std::set<std::string>(types.begin(), types.end()));
}

TEST(FlagActors, CommandsTakeWhatTheTableSays) {
  for (const Actor command : {Actor::preprocess, Actor::merge_mp_partitions}) {
    EXPECT_EQ(
        listed_flags(std::string(config::name_of(command))),
        flags_of(command))
        << config::name_of(command);
  }
}

} // namespace
} // namespace cairn::cli::flag_actors_test
