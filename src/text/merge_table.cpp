#include "text/merge_table.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace cairn::text {

MergeTable::MergeTable(std::span<const Rule> rules) {
  const std::size_t slots = std::bit_ceil(rules.size() * 2 + 16);
  slots_.assign(slots, {free, none});
  mask_ = slots - 1;
  shift_ = 64 - std::countr_zero(slots);
  std::uint64_t rank = 0;
  for (const Rule& rule : rules) {
    const std::uint64_t wanted = key(rule.left, rule.right);
    std::size_t at = home(wanted);
    while (slots_[at].key != free && slots_[at].key != wanted) {
      at = (at + 1) & mask_;
    }
    if (slots_[at].key == free) {
      slots_[at] = {
          wanted,
          rank << 32 | static_cast<std::uint32_t>(rule.merged)};
    }
    ++rank;
  }
}

MergeTable::Rule merge_rule(
    std::string_view left,
    std::string_view right,
    const Vocabulary& vocabulary,
    const std::filesystem::path& file,
    std::size_t line) {
  const auto id = [&](std::string_view token) {
    if (const auto known = vocabulary.find(token)) {
      return *known;
    }
    throw DataError(
        {.what = fmt::format(
             "a merge needs \"{}\", which the vocabulary lacks",
             token),
         .where = line == 0 ? file.string()
                            : fmt::format("{}:{}", file.string(), line),
         .remedy = "vocabulary and merges must be of the same tokenizer"});
  };
  std::string merged(left);
  merged += right;
  return {id(left), id(right), id(merged)};
}

std::vector<MergeTable::Rule> read_merges_txt(
    const std::filesystem::path& file,
    const Vocabulary& vocabulary) {
  const std::string text = read_file(file, 256U << 20U);
  std::string_view rest = text;
  std::vector<MergeTable::Rule> rules;
  for (std::size_t number = 1; !rest.empty(); ++number) {
    const auto end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    if (line.empty() || line.starts_with("#version")) {
      continue;
    }
    const auto space = line.find(' ');
    if (space == 0 || space == std::string_view::npos ||
        space + 1 == line.size() ||
        line.find(' ', space + 1) != std::string_view::npos) {
      throw DataError(
          {.what = "a merge is two tokens with one space between",
           .where = fmt::format("{}:{}", file.string(), number),
           .values = fmt::format("\"{}\"", line.substr(0, 80))});
    }
    const auto left = line.substr(0, space);
    const auto right = line.substr(space + 1);
    rules.push_back(merge_rule(left, right, vocabulary, file, number));
  }
  return rules;
}

} // namespace cairn::text
