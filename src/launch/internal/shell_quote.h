#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cairn::launch {

/// `word` quoted so that a POSIX shell reads it back as the same single word.
std::string shell_quote(std::string_view word);

/// The words, each quoted, with spaces in between.
std::string shell_join(const std::vector<std::string>& words);

} // namespace cairn::launch
