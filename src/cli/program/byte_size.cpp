#include "cli/program/byte_size.h"

#include <cairn/base/error.h>

#include <fmt/core.h>

#include <charconv>
#include <cmath>
#include <string_view>
#include <utility>

namespace cairn::cli {

std::uint64_t byte_size_from(const std::string& flag, const std::string& text) {
  static constexpr std::pair<std::string_view, double> units[]{
      {"", 1},
      {"B", 1},
      {"kB", 1e3},
      {"KB", 1e3},
      {"MB", 1e6},
      {"GB", 1e9},
      {"TB", 1e12},
      {"K", 0x1p10},
      {"M", 0x1p20},
      {"G", 0x1p30},
      {"T", 0x1p40},
      {"KiB", 0x1p10},
      {"MiB", 0x1p20},
      {"GiB", 0x1p30},
      {"TiB", 0x1p40},
  };
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  const std::string_view unit(stop, static_cast<std::size_t>(end - stop));
  for (const auto& [name, factor] : units) {
    if (error == std::errc() && unit == name && value >= 0 &&
        value * factor < 0x1p62) {
      return static_cast<std::uint64_t>(std::llround(value * factor));
    }
  }
  throw ConfigError(
      {.what = fmt::format("\"{}\" is no size", text),
       .where = flag,
       .remedy = "write 100MB, 1.5GB or 64MiB"});
}

std::string shown_byte_size(std::uint64_t bytes) {
  static constexpr const char* units[]{"B", "kB", "MB", "GB", "TB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 999.5 && unit + 1 < std::size(units)) {
    value /= 1000;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes)
                   : fmt::format("{:.3g} {}", value, units[unit]);
}

} // namespace cairn::cli
