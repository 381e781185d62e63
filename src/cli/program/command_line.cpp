#include "cli/program/command_line.h"

#include "base/internal/edit_distance.h"
#include "cli/program/help_formatter.h"

#include <cairn/base/error.h>

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

namespace cairn::cli {
namespace {

/// "cairn data inspect" of "cairn data inspect PREFIX [FLAGS…]".
std::string command_of(const std::string& usage) {
  const auto is_word_of_name = [](char c) {
    return c == ' ' || c == '-' || (c >= 'a' && c <= 'z');
  };
  const auto end =
      std::find_if_not(usage.begin(), usage.end(), is_word_of_name);
  std::string name(usage.begin(), end);
  name.erase(name.find_last_not_of(' ') + 1);
  return name;
}

template <typename Number>
CLI::Validator whole_number(const char* wanted) {
  const auto read = [=](std::string& text) {
    Number value{};
    const auto* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc() || stop != end) {
      return fmt::format("\"{}\" is not {}", text, wanted);
    }
    text = std::to_string(value);
    return std::string();
  };
  return {read, ""};
}

/// Reads the value itself: CLI11 would take -1 for the largest number of an
/// unsigned type, a number that is too large as well, and 010 for 8.
void read_whole_numbers(CLI::Option& option) {
  const std::string type = option.get_type_name();
  if (type.starts_with("UINT")) {
    option.transform(
        whole_number<std::uint64_t>("a whole number of at least 0"));
  } else if (type.starts_with("INT")) {
    option.transform(whole_number<std::int64_t>("a whole number"));
  }
}

} // namespace

CommandLine::CommandLine(std::string usage, std::string example)
    : command_(command_of(usage)), app_("", command_) {
  app_.formatter(std::make_shared<HelpFormatter>(std::move(usage)));
  if (!example.empty()) {
    app_.footer("Example:\n  " + std::move(example));
  }
  app_.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::Throw);
}

Arguments CommandLine::with_dashes(const Arguments& arguments) const {
  Arguments words = arguments;
  for (std::string& word : words) {
    if (word == "--") {
      break;
    }
    if (!word.starts_with("--")) {
      continue;
    }
    const std::size_t end = std::min(word.find('='), word.size());
    std::string dashed = word.substr(0, end);
    std::replace(dashed.begin(), dashed.end(), '_', '-');
    if (app_.get_option_no_throw(dashed) != nullptr) {
      word.replace(0, end, dashed);
    }
  }
  return words;
}

void CommandLine::require_values(const Arguments& words) const {
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    if (words[i] == "--" || words[i + 1] == "--") {
      return;
    }
    const auto* option = find(words[i]);
    if (option != nullptr && option->get_expected_min() > 0 &&
        find(words[i + 1].substr(0, words[i + 1].find('='))) != nullptr) {
      throw ConfigError(
          {.what = fmt::format("{} has no value", words[i]),
           .values = fmt::format("{} follows", words[i + 1]),
           .remedy = fmt::format("see `{} --help`", command_)});
    }
  }
}

const CLI::Option* CommandLine::find(const std::string& word) const {
  return word.starts_with("-") ? app_.get_option_no_throw(word) : nullptr;
}

void CommandLine::refuse(const std::string& typed) const {
  const std::string word = typed.substr(0, typed.find('='));
  if (!word.starts_with("-")) {
    throw ConfigError(
        {.what = fmt::format("\"{}\" has no place here", word),
         .remedy = fmt::format("see `{} --help`", command_)});
  }
  std::vector<std::string> names;
  for (const CLI::Option* option : app_.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      names.push_back("--" + name);
    }
  }
  const std::vector<std::string_view> candidates(names.begin(), names.end());
  const auto closest = nearest(word, candidates);
  throw ConfigError(
      {.what = fmt::format("unknown flag {}", word),
       .remedy = closest ? fmt::format("did you mean {}?", *closest)
                         : fmt::format("`{} --help` lists them", command_)});
}

bool CommandLine::parse(const Arguments& arguments) {
  const Arguments words = with_dashes(arguments);
  require_values(words);
  for (CLI::Option* const option : app_.get_options()) {
    read_whole_numbers(*option);
  }
  app_.allow_extras(); // so that our own message names the first of them
  try {
    app_.parse(Arguments(words.rbegin(), words.rend()));
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app_.help());
    return false;
  } catch (const CLI::ParseError& error) {
    if (const auto extras = app_.remaining(); !extras.empty()) {
      refuse(extras.front());
    }
    throw ConfigError(
        {.what = error.what(),
         .remedy = fmt::format("see `{} --help`", command_)});
  }
  if (const auto extras = app_.remaining(); !extras.empty()) {
    refuse(extras.front());
  }
  return true;
}

CLI::Validator at_least(int least) {
  const auto check = [least](const std::string& text) {
    double value = 0;
    const bool right = CLI::detail::lexical_cast(text, value) && value >= least;
    return right
        ? std::string()
        : fmt::format("\"{}\" is not a number of at least {}", text, least);
  };
  return {check, ""};
}

} // namespace cairn::cli
