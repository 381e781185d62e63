#include "launch/internal/hostfile.h"

#include "launch/escaped.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <utility>

namespace cairn::launch {
namespace {

constexpr std::string_view blanks = " \t\r\v\f";
constexpr int most_slots = 4096;
constexpr std::uint64_t largest_file = 16 << 20;

/// Removes the first word from `line` and returns it; empty at the end.
std::string_view next_word(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(blanks), line.size()));
  const auto word = line.substr(0, line.find_first_of(blanks));
  line.remove_prefix(word.size());
  return word;
}

std::optional<int> slot_count(std::string_view word) {
  constexpr std::string_view key = "slots=";
  if (!word.starts_with(key)) {
    return std::nullopt;
  }
  word.remove_prefix(key.size());
  int count = 0;
  const auto [end, error] =
      std::from_chars(word.data(), word.data() + word.size(), count);
  if (error != std::errc{} || end != word.data() + word.size() || count < 1 ||
      count > most_slots) {
    return std::nullopt;
  }
  return count;
}

} // namespace

bool is_host_name(std::string_view name) {
  return !name.empty() && name.front() != '-' && name.size() <= 255 &&
      std::all_of(name.begin(), name.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
            (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
      });
}

Host host_with_slots(std::string name, int count) {
  Host host{.name = std::move(name), .slots = {}};
  host.slots.resize(static_cast<std::size_t>(count));
  std::iota(host.slots.begin(), host.slots.end(), 0);
  return host;
}

std::vector<Host> parse_hostfile(std::string_view text, std::string_view file) {
  std::vector<Host> hosts;
  std::vector<int> lines; // line number of each host
  for (int number = 1; !text.empty(); ++number) {
    auto line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    line = line.substr(0, line.find('#'));
    auto rest = line;
    const auto name = next_word(rest);
    if (name.empty()) {
      continue;
    }
    const auto where = fmt::format("{}:{}", file, number);
    if (!is_host_name(name)) {
      throw ConfigError(
          {.what = fmt::format("{} is not a host name", escaped(name)),
           .where = where,
           .remedy =
               "use letters, digits, '.', '_' and '-'; what ssh needs besides "
               "(user, port) belongs in ~/.ssh/config or --ssh-command"});
    }
    const auto slots = slot_count(next_word(rest));
    if (!slots || !next_word(rest).empty()) {
      throw ConfigError(
          {.what = fmt::format("bad line {}", escaped(line)),
           .where = where,
           .remedy = fmt::format(
               "write it as \"{} slots=N\", N from 1 to {}",
               name,
               most_slots)});
    }
    const auto same =
        std::find_if(hosts.begin(), hosts.end(), [&](const Host& host) {
          return host.name == name;
        });
    if (same != hosts.end()) {
      throw ConfigError(
          {.what = fmt::format(
               "host {} is there twice, first on line {}",
               name,
               lines[static_cast<std::size_t>(same - hosts.begin())]),
           .where = where,
           .remedy = "give it one line with the sum of its slots"});
    }
    hosts.push_back(host_with_slots(std::string(name), *slots));
    lines.push_back(number);
  }
  if (hosts.empty()) {
    throw ConfigError(
        {.what = "the host file names no host",
         .where = std::string(file),
         .remedy = "write lines such as \"worker-0 slots=8\""});
  }
  return hosts;
}

std::vector<Host> read_hostfile(const std::filesystem::path& file) {
  return parse_hostfile(read_file(file, largest_file), file.string());
}

} // namespace cairn::launch
