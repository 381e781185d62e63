#include "cli/program/help_formatter.h"

#include "base/internal/terminal.h"
#include "base/internal/wrapped_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace cairn::cli {
namespace {

constexpr std::size_t line_width = 80;
constexpr std::size_t description_column = 28;

std::string with_dashes(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

/// The description, followed by the default where the option shows one.
std::string description_of(const CLI::Option* option) {
  std::string value = option->get_default_str();
  if (value.starts_with('[') && value.ends_with(']')) { // a list
    value = value.substr(1, value.size() - 2);
  }
  return value.empty()
      ? option->get_description()
      : fmt::format("{} ({})", option->get_description(), value);
}

} // namespace

HelpFormatter::HelpFormatter(std::string usage) : usage_(std::move(usage)) {}

std::string HelpFormatter::make_description(const CLI::App* app) const {
  std::string text = app->get_description();
  text.erase(text.find_last_not_of('\n') + 1);
  return text.empty() ? text : text + "\n\n";
}

std::string HelpFormatter::make_usage(const CLI::App*, std::string) const {
  return fmt::format("Usage: {}\n\n", usage_);
}

std::string HelpFormatter::make_group(
    std::string group,
    bool is_positional,
    std::vector<const CLI::Option*> options) const {
  std::string out = group + ":\n";
  for (const CLI::Option* option : options) {
    out += make_option(option, is_positional);
  }
  return is_positional ? out + "\n" : out;
}

std::string HelpFormatter::make_option(
    const CLI::Option* option,
    bool is_positional) const {
  const std::string name =
      "  " + make_option_name(option, is_positional) + make_option_opts(option);
  const std::size_t width = text_columns(name);
  const std::string gap = width + 2 > description_column
      ? "\n" + std::string(description_column, ' ')
      : std::string(description_column - width, ' ');
  return name + gap +
      wrapped_text(description_of(option), description_column, line_width) +
      "\n";
}

std::string HelpFormatter::make_option_name(
    const CLI::Option* option,
    bool is_positional) const {
  if (is_positional) {
    return option->get_name(true);
  }
  std::vector<std::string> names;
  for (const std::string& name : option->get_snames()) {
    names.push_back("-" + name);
  }
  std::vector<std::string> seen;
  for (const std::string& name : option->get_lnames()) {
    if (std::find(seen.begin(), seen.end(), with_dashes(name)) == seen.end()) {
      names.push_back("--" + name);
      seen.push_back(with_dashes(name));
    }
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string HelpFormatter::make_option_opts(const CLI::Option* option) const {
  if (option->get_expected_min() == 0) { // a flag
    return "";
  }
  const auto type = option->get_type_name();
  const bool number = type.starts_with("INT") || type.starts_with("UINT") ||
      type.starts_with("FLOAT");
  const std::string word = number  ? " N"
      : type.starts_with("TEXT:{") ? " " + type.substr(6, type.size() - 7)
                                   : " " + type;
  return option->get_expected_max() > 1 ? word + "…" : word;
}

} // namespace cairn::cli
