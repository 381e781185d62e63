#include "text/schemes/bpe/merge_table.h"

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
          (rule.rank < 0 ? rank : static_cast<std::uint64_t>(rule.rank)) << 32 |
              static_cast<std::uint32_t>(rule.merged)};
    }
    ++rank;
  }
}

TokenId MergeRules::find(std::string_view token, std::size_t line) const {
  if (const auto known = vocabulary_.find(token)) {
    return *known;
  }
  throw DataError(
      {.what = fmt::format(
           "a merge needs \"{}\", which the vocabulary lacks",
           token),
       .where = line == 0 ? file_.string()
                          : fmt::format("{}:{}", file_.string(), line),
       .remedy = "vocabulary and merges must be of the same tokenizer"});
}

void MergeRules::add(
    std::string_view left,
    std::string_view right,
    std::size_t line) {
  merged_.assign(left);
  merged_ += right;
  // Trainers number merged tokens in order, so the next id is tried first.
  const TokenId next = rules_.empty() ? 0 : rules_.back().merged + 1;
  const bool numbered = static_cast<std::size_t>(next) < vocabulary_.size() &&
      vocabulary_.token(next) == merged_;
  rules_.push_back(
      {find(left, line),
       find(right, line),
       numbered ? next : find(merged_, line)});
}

std::vector<MergeTable::Rule> read_merges_txt(
    const std::filesystem::path& file,
    const Vocabulary& vocabulary) {
  const std::string text = read_file(file, 256U << 20U);
  std::string_view rest = text;
  MergeRules rules(vocabulary, file);
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
    rules.add(left, right, number);
  }
  return rules.take();
}

} // namespace cairn::text
