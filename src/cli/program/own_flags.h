#pragma once

#include "cli/program/command.h"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace cairn::cli {

/// The words of a command that has flags of its own and passes the others on
/// to what it examines or runs.
struct OwnFlags {
  std::map<std::string, std::string> given;
  Arguments others;

  bool has(const std::string& name) const { return given.contains(name); }
  std::optional<std::string> value(const std::string& name) const;
};

/// Sorts words by the command's flags that take a value and those that do not.
/// In their names `-` and `_` are the same. Throws ConfigError for a value
/// that is missing.
OwnFlags own_flags(
    const Arguments& arguments,
    std::span<const std::string_view> with_value,
    std::span<const std::string_view> without_value);

/// True if a word asks for help.
bool any_asks_for_help(const Arguments& arguments);

/// The value of a flag as a number from `least` on, or as a whole one from 1 to
/// 2^20. Throws ConfigError.
double number_from(
    const std::string& name,
    const std::string& text,
    double least = 1);
std::int64_t count_from(const std::string& name, const std::string& text);

} // namespace cairn::cli
