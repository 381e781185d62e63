#include "config/internal/stored_flags.h"

#include "config/flags/flag_parser.h"
#include "config/internal/flag.h"
#include "config/internal/flag_file.h"

#include <cairn/base/error.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

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

Words words_of(const StoredFlag& stored) {
  Words words;
  if (!stored.absent) {
    words.push_back(stored.name);
    words.insert(words.end(), stored.values.begin(), stored.values.end());
  }
  return words;
}

/// Lets a checkpoint's flag meet those of the command line.
void meet(
    const StoredFlag& stored,
    std::vector<FlagWords>& given,
    WithStored& result) {
  const Flag* const row = find_flag(stored.name);
  if (row == nullptr) {
    throw InternalError({.what = "no such flag", .values = stored.name});
  }
  const auto is_this = [&](const FlagWords& one) { return one.row == row; };
  Words said;
  for (const FlagWords& one : given) {
    if (is_this(one)) {
      said = one.words; // the last one counts
    }
  }
  const Words words = words_of(stored);
  const std::string text = fmt::format("{}", fmt::join(words, " "));
  const Json value = value_of(*row, words);
  if (!said.empty()) {
    if (!stored.wins || value_of(*row, said) == value) {
      return;
    }
    result.overruled.push_back(fmt::format(
        "{} gives way to the checkpoint's {}",
        fmt::join(said, " "),
        stored.absent ? "lack of it" : text));
    std::erase_if(given, is_this);
  }
  const bool is_default = value == value_of(*row, {});
  if (!is_default) {
    result.taken.push_back(text);
  }
  if (!stored.absent && (!is_default || stored.always)) {
    given.push_back({.row = row, .words = words});
  }
}

} // namespace

Flags said_flags(const Words& words) {
  return parse_flags(with_flag_files(words)).flags;
}

WithStored with_stored_flags(
    const Words& words,
    const std::vector<StoredFlag>& stored) {
  WithStored result;
  std::vector<FlagWords> given = split_into_flags(with_flag_files(words));
  for (const StoredFlag& one : stored) {
    meet(one, given, result);
  }
  for (const FlagWords& one : given) {
    result.words.insert(result.words.end(), one.words.begin(), one.words.end());
  }
  return result;
}

} // namespace cairn::config
