#include "config/binding.h"

#include <cairn/base/edit_distance.h>
#include <cairn/base/error.h>
#include "base/ascii_case.h"
#include "config/number_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace cairn::config {
namespace {

template <typename T>
void check_range(T value, const Place& place, const Rules& rules) {
  const auto real = static_cast<double>(value);
  const bool low = rules.least &&
      (rules.least_excluded ? real <= *rules.least : real < *rules.least);
  if (low || (rules.most && real > *rules.most)) {
    throw ConfigError(
        {.what = fmt::format("{} is out of range", value),
         .where = place.text(),
         .remedy = "it must be " + range_text(rules)});
  }
}

} // namespace

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

void fail_type(
    const Node& node,
    const Place& place,
    std::string_view expected) {
  throw ConfigError(
      {.what = fmt::format("expected {}, got {}", expected, shown(node)),
       .where = place.text()});
}

// The spellings are those of DeepSpeed's validator, so that a file it takes is
// taken here too.
void read_value(
    bool& value,
    const Node& node,
    const Place& place,
    const Rules&) {
  if (const auto* truth = node.as<bool>()) {
    value = *truth;
    return;
  }
  std::string word;
  if (const auto* text = node.as<std::string>()) {
    word = lower_case(*text);
  } else if (const auto* integer = node.as<std::int64_t>()) {
    word = fmt::format("{}", *integer);
  } else if (const auto* real = node.as<double>()) {
    word = number_text(*real);
  }
  for (const char* yes : {"true", "1", "yes", "on", "t", "y"}) {
    if (word == yes) {
      value = true;
      return;
    }
  }
  for (const char* no : {"false", "0", "no", "off", "f", "n"}) {
    if (word == no) {
      value = false;
      return;
    }
  }
  fail_type(node, place, "true or false");
}

void read_value(
    std::int64_t& value,
    const Node& node,
    const Place& place,
    const Rules& rules) {
  std::optional<std::int64_t> found;
  if (const auto* integer = node.as<std::int64_t>()) {
    found = *integer;
  } else if (const auto* real = node.as<double>()) {
    found = integral(*real);
  } else if (const auto* text = node.as<std::string>()) {
    found = parse_integer(*text);
  } else if (const auto* truth = node.as<bool>();
             truth && rules.bool_is_number) {
    found = *truth ? 1 : 0;
  }
  if (!found) {
    fail_type(node, place, "an integer");
  }
  check_range(*found, place, rules);
  value = *found;
}

void read_value(
    double& value,
    const Node& node,
    const Place& place,
    const Rules& rules) {
  std::optional<double> found;
  if (const auto* integer = node.as<std::int64_t>()) {
    found = static_cast<double>(*integer);
  } else if (const auto* real = node.as<double>()) {
    found = *real;
  } else if (const auto* text = node.as<std::string>()) {
    found = parse_real(*text);
  } else if (const auto* truth = node.as<bool>();
             truth && rules.bool_is_number) {
    found = *truth ? 1 : 0;
  }
  if (!found) {
    fail_type(node, place, "a number");
  }
  check_range(*found, place, rules);
  value = *found;
}

void read_value(
    std::string& value,
    const Node& node,
    const Place& place,
    const Rules& rules) {
  const auto* text = node.as<std::string>();
  if (!text) {
    fail_type(node, place, "text");
  }
  if (rules.choices.empty()) {
    value = *text;
    return;
  }
  std::vector<Spelling> spellings;
  for (const std::string& choice : rules.choices) {
    spellings.push_back({static_cast<int>(spellings.size()), choice});
  }
  value = rules.choices[static_cast<std::size_t>(
      read_spelling(node, place, spellings))];
}

void read_value(
    ZeroStage& value,
    const Node& node,
    const Place& place,
    const Rules&) {
  std::int64_t stage = 0;
  read_value(
      stage,
      node,
      place,
      {.least = 0, .most = 3, .bool_is_number = true});
  value = static_cast<ZeroStage>(stage);
}

void read_value(
    AmpLossScale& value,
    const Node& node,
    const Place& place,
    const Rules&) {
  const auto* text = node.as<std::string>();
  if (text && lower_case(*text) == "dynamic") {
    value.fixed.reset();
  } else if (text && !parse_real(*text)) {
    fail_type(node, place, TypeWords<AmpLossScale>::get());
  } else {
    read_value(
        value.fixed.emplace(),
        node,
        place,
        {.least = 0, .least_excluded = true});
  }
}

int read_spelling(
    const Node& node,
    const Place& place,
    const std::vector<Spelling>& spellings) {
  const auto* text = node.as<std::string>();
  if (!text) {
    fail_type(node, place, words_of(spellings));
  }
  std::vector<std::string_view> names;
  for (const Spelling& spelling : spellings) {
    if (lower_case(spelling.name) == lower_case(*text)) {
      return spelling.value;
    }
    names.push_back(spelling.name);
  }
  const auto close = nearest(*text, names);
  throw ConfigError(
      {.what =
           fmt::format("expected {}, got {}", words_of(spellings), shown(node)),
       .where = place.text(),
       .remedy = close ? fmt::format("did you mean \"{}\"?", *close) : ""});
}

std::string list_words(const std::string& count, const std::string& element) {
  const bool counted = element == "integer" || element == "number";
  return "list of " + count + element + (counted ? "s" : "");
}

std::string words_of(const std::vector<Spelling>& spellings) {
  std::string words;
  for (std::size_t i = 0; i < spellings.size(); ++i) {
    words += i == 0 ? "" : i + 1 < spellings.size() ? ", " : " or ";
    words += fmt::format("\"{}\"", spellings[i].name);
  }
  return words;
}

} // namespace cairn::config
