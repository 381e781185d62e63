#include "cli/serve/key_file.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>

#include <algorithm>
#include <cstdint>

namespace cairn::cli {

std::string read_key_file(const std::string& path) {
  constexpr std::uint64_t most = 4096;
  const std::string all = read_file(path, most);
  const std::string key = all.substr(0, all.find_first_of("\r\n"));
  const auto is_visible = [](char c) { return c > ' ' && c < 0x7f; };
  if (key.empty() || !std::ranges::all_of(key, is_visible)) {
    throw ConfigError(
        {.what = "the first line is no key: visible ASCII characters without "
                 "spaces",
         .where = path});
  }
  return key;
}

} // namespace cairn::cli
