#include "config/table/setting.h"

#include "config/table/number_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace cairn::config {

std::string range_text(const Rules& rules) {
  const auto words = [](double bound) { return number_text(bound); };
  if (rules.least && rules.most) {
    return fmt::format("{} to {}", words(*rules.least), words(*rules.most));
  }
  if (rules.least) {
    return (rules.least_excluded ? "greater than " : "at least ") +
        words(*rules.least);
  }
  return rules.most ? "at most " + words(*rules.most) : "";
}

std::string_view Setting::warning_for(std::string_view spelled) const {
  const auto names = words_in(aliases);
  const bool is_alias = std::ranges::any_of(names, [&](std::string_view alias) {
    return same_name(alias, spelled);
  });
  return is_alias ? alias_warning : std::string_view();
}

std::vector<std::string_view> words_in(std::string_view list) {
  std::vector<std::string_view> words;
  while (!list.empty()) {
    const std::size_t space = std::min(list.find(' '), list.size());
    if (space > 0) {
      words.push_back(list.substr(0, space));
    }
    list.remove_prefix(std::min(space + 1, list.size()));
  }
  return words;
}

bool same_name(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) {
    return (x == '_' ? '-' : x) == (y == '_' ? '-' : y);
  });
}

} // namespace cairn::config
