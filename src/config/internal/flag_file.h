#pragma once

#include <string>
#include <vector>

namespace cairn::config {

/// Puts the words of a file in place of each `@FILE`. In there words stand
/// apart by white space, `#` begins a comment, and quotes of either kind hold
/// words together; an `@` in a file is a letter as any other. `@@x` stands for
/// the word `@x`. Throws ConfigError for a file that cannot be read or has a
/// quote too few.
std::vector<std::string> with_flag_files(const std::vector<std::string>& words);

/// Writes words for a command line, where a word that begins with `@` would be
/// a file: with_flag_files() gives the same words back.
std::vector<std::string> written_out(std::vector<std::string> words);

} // namespace cairn::config
