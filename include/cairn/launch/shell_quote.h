#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cairn::launch {

/// `word` such that a POSIX shell reads it back as one and the same word.
std::string shell_quote(std::string_view word);

/// The words with spaces between, each quoted.
std::string shell_join(const std::vector<std::string>& words);

} // namespace cairn::launch
