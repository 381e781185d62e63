#include "corpus/pages/robots_rules.h"

#include "base/internal/ascii_case.h"
#include "base/internal/trimmed.h"

#include <algorithm>
#include <charconv>
#include <cstddef>

namespace cairn::corpus {
namespace {

/// Whether the pattern fits the beginning of the path. Each "*" takes as little
/// as it can, which finds a fit if there is one, in a time proportional to the
/// two lengths multiplied.
bool fits(std::string_view pattern, std::string_view path) {
  const bool to_the_end = pattern.ends_with('$');
  if (to_the_end) {
    pattern.remove_suffix(1);
  }
  std::size_t at = 0;
  bool first = true;
  while (true) {
    const std::size_t star = pattern.find('*');
    const std::string_view piece = pattern.substr(0, star);
    const bool last = star == std::string_view::npos;
    if (first) {
      if (!path.starts_with(piece)) {
        return false;
      }
      at = piece.size();
    } else if (last && to_the_end) {
      return path.size() >= at + piece.size() && path.ends_with(piece);
    } else {
      at = path.find(piece, at);
      if (at == std::string_view::npos) {
        return false;
      }
      at += piece.size();
    }
    if (last) {
      return !to_the_end || at == path.size();
    }
    pattern.remove_prefix(star + 1);
    first = false;
  }
}

/// "/a%2Fb" and "/a%2fb" are one path.
std::string with_plain_percents(std::string_view path) {
  std::string plain(path);
  for (std::size_t i = 0; i + 2 < plain.size(); ++i) {
    if (plain[i] == '%') {
      plain[i + 1] = lower_case(plain[i + 1]);
      plain[i + 2] = lower_case(plain[i + 2]);
    }
  }
  return plain;
}

std::chrono::milliseconds delay_from(std::string_view value) {
  constexpr double longest = 60;
  double seconds = 0;
  const auto [stop, error] =
      std::from_chars(value.data(), value.data() + value.size(), seconds);
  return error == std::errc() && seconds > 0
      ? std::chrono::milliseconds(
            static_cast<long>(1000 * std::min(seconds, longest)))
      : std::chrono::milliseconds(0);
}

} // namespace

RobotsRules::RobotsRules(std::string_view text, std::string_view robot) {
  enum class Group { none, other, everybody, own };
  Group group = Group::none;
  bool own_found = false;
  bool in_names = false; // a group begins with one name or several
  constexpr std::size_t most_rules = 2000;
  constexpr std::size_t longest_pattern = 500;
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
  if (text.starts_with(byte_order_mark)) {
    text.remove_prefix(byte_order_mark.size());
  }
  while (!text.empty()) {
    const std::size_t end = text.find_first_of("\r\n");
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    line = line.substr(0, line.find('#'));
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) {
      continue;
    }
    const std::string key = lower_case(trimmed(line.substr(0, colon)));
    const std::string_view value = trimmed(line.substr(colon + 1));
    if (key == "user-agent") {
      const bool named = lower_case(value) == lower_case(robot);
      if (named && !own_found) { // the rules for everybody do not count
        own_found = true;
        rules_.clear();
        delay_ = {};
      }
      const Group now = named          ? Group::own
          : value == "*" && !own_found ? Group::everybody
                                       : Group::other;
      group = in_names ? std::max(group, now) : now;
      in_names = true;
      continue;
    }
    const bool rule = key == "allow" || key == "disallow";
    if (!rule && key != "crawl-delay") {
      continue; // as "sitemap", which belongs to no group
    }
    in_names = false;
    if (group != Group::own && (group != Group::everybody || own_found)) {
      continue;
    }
    if (!rule) {
      delay_ = delay_from(value);
    } else if (
        !value.empty() && value.size() <= longest_pattern &&
        rules_.size() < most_rules) {
      rules_.push_back({with_plain_percents(value), key == "allow"});
    }
  }
}

bool RobotsRules::allow(std::string_view path) const {
  if (path == "/robots.txt") {
    return true;
  }
  const std::string plain = with_plain_percents(path);
  bool allowed = true;
  std::size_t longest = 0;
  for (const Rule& rule : rules_) {
    const std::size_t length = rule.pattern.size();
    if ((length > longest || (length == longest && rule.allow)) &&
        fits(rule.pattern, plain)) {
      longest = length;
      allowed = rule.allow;
    }
  }
  return allowed;
}

} // namespace cairn::corpus
