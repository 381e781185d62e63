#pragma once

#include "support/command.h"
#include "support/temporary_folder.h"

#include <string>
#include <string_view>

namespace cairn::launch::fixtures {

using cairn::testing::Command;
using cairn::testing::mark_variable;
using cairn::testing::read_text;
using cairn::testing::Result;
using cairn::testing::run;
using cairn::testing::TemporaryFolder;
using cairn::testing::Words;

/// Runs `cairn launch` with these words to its end; checks that nothing is
/// left.
Result launch(
    Words words,
    const std::vector<std::pair<std::string, std::string>>& environment = {});
Words launch_words(Words words);

/// The words to launch so many ranks that run a shell script.
Words shell(int ranks, const std::string& script, Words flags = {});

/// The line of such a script that hands over an error: of the rank's "own", or
/// of "another".
std::string hand_over(const std::string& kind, const std::string& text);

/// The lines of `text` that begin with `start`, without it.
Words lines_after(std::string_view text, std::string_view start);

} // namespace cairn::launch::fixtures
