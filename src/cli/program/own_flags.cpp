#include "cli/program/own_flags.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <system_error>

namespace cairn::cli {
namespace {

/// The name of a flag as the lists have it: with dashes.
std::string spelled(std::string_view word) {
  std::string name(word.substr(0, word.find('=')));
  if (name.starts_with("--")) {
    std::ranges::replace(name, '_', '-');
  }
  return name;
}

} // namespace

std::optional<std::string> OwnFlags::value(const std::string& name) const {
  const auto found = given.find(name);
  return found == given.end() ? std::nullopt : std::optional(found->second);
}

OwnFlags own_flags(
    const Arguments& arguments,
    std::span<const std::string_view> with_value,
    std::span<const std::string_view> without_value) {
  OwnFlags words;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string name = spelled(arguments[i]);
    if (std::ranges::find(without_value, name) != without_value.end()) {
      words.given[name] = "";
    } else if (std::ranges::find(with_value, name) != with_value.end()) {
      std::optional<std::string> value;
      if (const auto equals = arguments[i].find('=');
          equals != std::string::npos) {
        value = arguments[i].substr(equals + 1);
      } else if (
          i + 1 < arguments.size() && !arguments[i + 1].starts_with("--")) {
        value = arguments[++i];
      }
      if (!value) {
        throw ConfigError({.what = "takes a value, got none", .where = name});
      }
      words.given[name] = *value;
    } else {
      words.others.push_back(arguments[i]);
    }
  }
  return words;
}

bool any_asks_for_help(const Arguments& arguments) {
  return std::ranges::any_of(arguments, [](const std::string& each) {
    return each == "--help" || each == "-h" || each == "help";
  });
}

double number_from(
    const std::string& name,
    const std::string& text,
    double least) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end ||
      !(value >= least && value <= 1e18)) {
    throw ConfigError(
        {.what = fmt::format("\"{}\" is no number from {:g} on", text, least),
         .where = name});
  }
  return value;
}

std::int64_t count_from(const std::string& name, const std::string& text) {
  constexpr double most = 1 << 20;
  const double value = number_from(name, text);
  if (value > most ||
      value != static_cast<double>(static_cast<std::int64_t>(value))) {
    throw ConfigError(
        {.what = fmt::format("\"{}\" is no whole number up to {}", text, most),
         .where = name});
  }
  return static_cast<std::int64_t>(value);
}

} // namespace cairn::cli
