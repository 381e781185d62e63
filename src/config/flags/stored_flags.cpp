#include "config/internal/stored_flags.h"

#include "config/flags/flag_parser.h"
#include "config/internal/flag.h"
#include "config/internal/flag_file.h"
#include "config/table/printable.h"

#include <cairn/base/error.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

namespace cairn::config {

namespace {

using Words = std::vector<std::string>;

/// A flag and the words that belong to it.
struct FlagWords {
  const Flag* row = nullptr; ///< nullptr for words that are no flag of ours
  Words words;
};

std::vector<FlagWords> split_into_flags(const Words& words) {
  std::vector<FlagWords> flags;
  for (const std::string& word : words) {
    if (flags.empty() || looks_like_flag(word)) {
      const std::string name = word.substr(0, word.find('='));
      flags.push_back(
          {.row = name.starts_with("--") ? find_flag(name) : nullptr});
    }
    flags.back().words.push_back(word);
  }
  return flags;
}

/// The value that the words give to a flag.
Json value_of(const Flag& row, const Words& words) {
  return row.binding.get(parse_flags(words).flags);
}

/// A single value stands in one word with its flag: so it is a value whatever
/// it begins with.
Words words_of(const StoredFlag& stored) {
  if (stored.absent) {
    return {};
  }
  if (stored.values.size() == 1) {
    return {stored.name + "=" + stored.values.front()};
  }
  Words words{stored.name};
  words.insert(words.end(), stored.values.begin(), stored.values.end());
  return words;
}

std::string text_of(const StoredFlag& stored) {
  return stored.values.empty()
      ? stored.name
      : printable(
            fmt::format("{} {}", stored.name, fmt::join(stored.values, " ")));
}

/// The value that a checkpoint's flag has. Throws ConfigError, which names the
/// checkpoint.
Json value_in(
    const std::string& place,
    const Flag& row,
    const StoredFlag& stored) {
  try {
    return value_of(row, words_of(stored));
  } catch (const ConfigError& error) {
    Problem problem = error.problem();
    problem.what = fmt::format(
        "the checkpoint in {} says {}: {}",
        printable(place),
        text_of(stored),
        problem.what);
    problem.remedy = stored.wins
        ? "say what the model is by flags, without --use-checkpoint-args"
        : fmt::format("give {} for this run", stored.name);
    throw ConfigError(std::move(problem));
  }
}

/// Lets a checkpoint's flag meet those of the command line.
void meet(
    const StoredFlag& stored,
    const std::string& place,
    std::vector<FlagWords>& given,
    WithStored& result) {
  const Flag* const row = find_flag(stored.name);
  if (row == nullptr) {
    throw InternalError({.what = "no such flag", .values = stored.name});
  }
  const Flag* const also = stored.also.empty() ? row : find_flag(stored.also);
  const auto is_this = [&](const FlagWords& one) {
    return one.row == row || one.row == also;
  };
  Words said;
  for (const FlagWords& one : given) {
    if (is_this(one)) {
      said = one.words; // the last one counts
    }
  }
  if (!said.empty() && !stored.wins) {
    return;
  }
  const std::string text = text_of(stored);
  const Json value = value_in(place, *row, stored);
  if (!said.empty()) {
    if (value_of(*row, said) == value) {
      return;
    }
    result.overruled.push_back(fmt::format(
        "{} gives way to the checkpoint's {}",
        printable(fmt::format("{}", fmt::join(said, " "))),
        stored.absent ? "lack of it" : text));
    std::erase_if(given, is_this);
  }
  const bool is_default = value == value_of(*row, {});
  if (!is_default) {
    result.taken.push_back(text);
  }
  if (!stored.absent && (!is_default || stored.always)) {
    given.push_back({.row = row, .words = words_of(stored)});
  }
}

} // namespace

Flags said_flags(const Words& words) {
  return parse_flags(with_flag_files(words)).flags;
}

WithStored with_stored_flags(
    const Words& words,
    const std::vector<StoredFlag>& stored,
    const std::string& place) {
  WithStored result;
  std::vector<FlagWords> given = split_into_flags(with_flag_files(words));
  for (const StoredFlag& one : stored) {
    meet(one, place, given, result);
  }
  for (const FlagWords& one : given) {
    result.words.insert(result.words.end(), one.words.begin(), one.words.end());
  }
  result.words = written_out(std::move(result.words));
  return result;
}

} // namespace cairn::config
