#include "launch/launched.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace cairn::launch::fixtures {

Words launch_words(Words words) {
  words.insert(words.begin(), {LAUNCH_PROGRAM, "launch"});
  return words;
}

Result launch(
    Words words,
    const std::vector<std::pair<std::string, std::string>>& environment) {
  Command command(launch_words(std::move(words)), environment);
  auto result = command.finish();
  EXPECT_TRUE(command.living().empty()) << "processes are left behind";
  return result;
}

Words shell(int ranks, const std::string& script, Words flags) {
  flags.insert(
      flags.end(),
      {"--num_gpus=" + std::to_string(ranks),
       "--no_local_rank",
       "sh",
       "-c",
       script});
  return flags;
}

std::string hand_over(const std::string& kind, const std::string& text) {
  return "printf " + kind.substr(0, 1) + "'" + text +
      "' > /proc/self/fd/$CAIRN_ERROR_FD; ";
}

Words lines_after(std::string_view text, std::string_view start) {
  Words lines;
  while (!text.empty()) {
    const auto line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.starts_with(start)) {
      lines.emplace_back(line.substr(start.size()));
    }
  }
  return lines;
}

} // namespace cairn::launch::fixtures
