#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

// The common part of a row of the table of flags and of a row of the table of
// keys. Rows are constant data: texts are literals, and lists are words in one
// literal, separated by spaces.

namespace cairn::config {

/// Limits of a value beyond its type.
struct Rules {
  std::optional<double> least = std::nullopt;
  std::optional<double> most = std::nullopt;
  bool least_excluded = false;
  std::string_view choices = {}; ///< words that a text may be; empty: any
  /// True where DeepSpeed's validator turns true and false into 1 and 0.
  bool bool_is_number = false;
};

/// Range of the rules: "at least 0", "0 to 1", "greater than 0"; empty when
/// there is no bound.
std::string range_text(const Rules& rules);

/// Cairn's answer to a setting it knows.
struct Support {
  enum class Kind {
    honoured,
    without_effect, ///< accepted with a warning: it cannot matter here
    refused         ///< an error when it asks for anything but its default
  };
  Kind kind = Kind::honoured;
  std::string_view reason = {}; ///< why not honoured
};

struct Setting {
  std::string_view name; ///< "--lr", or a key's path "fp16.enabled"
  std::string_view help;
  Rules rules{};
  Support support{};
  std::string_view aliases{};       ///< other names, words
  std::string_view alias_warning{}; ///< said to those who use one, if any
  std::string_view default_words{}; ///< printed instead of the default's value

  /// Warning for someone who wrote the setting as `spelled`; empty if none.
  std::string_view warning_for(std::string_view spelled) const;
};

/// The words of a list.
std::vector<std::string_view> words_in(std::string_view list);

/// True when two names of settings are one: '-' and '_' do not differ.
bool same_name(std::string_view a, std::string_view b);

// Parts of a row that only some rows have. They stand after the columns that
// all rows have.

constexpr auto at_least(double bound) {
  return [bound](Setting& row) { row.rules.least = bound; };
}
constexpr auto above(double bound) {
  return [bound](Setting& row) {
    row.rules.least = bound;
    row.rules.least_excluded = true;
  };
}
constexpr auto between(double least, double most) {
  return [least, most](Setting& row) {
    row.rules.least = least;
    row.rules.most = most;
  };
}
constexpr auto one_of(std::string_view choices) {
  return [choices](Setting& row) { row.rules.choices = choices; };
}
constexpr auto also(std::string_view names, std::string_view warning = {}) {
  return [names, warning](Setting& row) {
    row.aliases = names;
    row.alias_warning = warning;
  };
}
constexpr auto by_default(std::string_view words) {
  return [words](Setting& row) { row.default_words = words; };
}
constexpr auto no_effect(std::string_view reason) {
  return [reason](Setting& row) {
    row.support = {Support::Kind::without_effect, reason};
  };
}
constexpr auto refused(std::string_view reason) {
  return [reason](Setting& row) {
    row.support = {Support::Kind::refused, reason};
  };
}

} // namespace cairn::config
