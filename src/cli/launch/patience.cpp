#include "cli/launch/patience.h"

#include "config/internal/flag_file.h"

#include <cairn/base/error.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>

namespace cairn::cli {
namespace {

/// The words with those of files of flags; the command itself complains about a
/// file that cannot be read.
Arguments all_words(const Arguments& words) {
  try {
    return config::with_flag_files(words);
  } catch (const Error&) {
    return words;
  }
}

} // namespace

std::optional<std::chrono::minutes> timeout_of_command(const Arguments& words) {
  std::optional<std::chrono::minutes> timeout;
  const Arguments all = all_words(words);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto equals = all[i].find('=');
    std::string name = all[i].substr(0, equals);
    std::ranges::replace(name, '_', '-');
    if (name != "--distributed-timeout-minutes") {
      continue;
    }
    std::string_view value;
    if (equals != std::string::npos) {
      value = std::string_view(all[i]).substr(equals + 1);
    } else if (i + 1 < all.size()) {
      value = all[i + 1];
    }
    int minutes = 0;
    const char* const end = value.data() + value.size();
    if (const auto [last, bad] = std::from_chars(value.data(), end, minutes);
        bad == std::errc{} && last == end && minutes > 0) {
      constexpr int month = 30 * 24 * 60;
      timeout = std::chrono::minutes(std::min(minutes, month));
    }
  }
  return timeout;
}

} // namespace cairn::cli
