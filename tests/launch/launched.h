#pragma once

#include "support/command.h"
#include "support/temporary_folder.h"

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

/// The lines of `text` that begin with `start`, without it.
Words lines_after(std::string_view text, std::string_view start);

} // namespace cairn::launch::fixtures
