#include "text/schemes/bpe/bpe_model.h"

#include <cairn/base/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

namespace cairn::text {
namespace {

/// Longest word, in symbols, for which searching all pairs for the best is
/// faster than a heap, although it is quadratic.
constexpr std::size_t short_limit = 64;

constexpr std::uint32_t nothing = std::numeric_limits<std::uint32_t>::max();

/// Scratch memory for more symbols than this is released after the word.
constexpr std::size_t kept_scratch = std::size_t{1} << 20;

/// A limit above the length of any token; a window has room for it.
constexpr std::size_t longest_token = std::size_t{1} << 16;
constexpr std::size_t smallest_window = std::size_t{1} << 18;

/// Longest word that is merged as a whole, which is needed where merges are out
/// of order. Merging takes some forty times the word's size in memory, so there
/// must be a limit.
constexpr std::size_t longest = std::size_t{8} << 20;

} // namespace

BpeModel::BpeModel(
    const std::array<TokenId, 256>& bytes,
    std::span<const MergeTable::Rule> rules)
    : bytes_(bytes), merges_(rules), reach_(reach(rules)) {}

std::optional<std::size_t> BpeModel::reach(
    std::span<const MergeTable::Rule> rules) {
  TokenId last = 0;
  for (const TokenId id : bytes_) {
    last = std::max(last, id);
  }
  for (const MergeTable::Rule& rule : rules) {
    last = std::max({last, rule.left, rule.right, rule.merged});
  }
  lengths_.assign(static_cast<std::size_t>(last) + 1, 0);
  std::vector<bool> needed(lengths_.size());
  const auto length = [&](TokenId id) -> std::uint32_t& {
    return lengths_[static_cast<std::size_t>(id)];
  };
  for (const TokenId id : bytes_) {
    if (id >= 0) {
      length(id) = 1;
      needed[static_cast<std::size_t>(id)] = true; // no rule may make it
    }
  }
  std::size_t sum = 0;
  for (const auto& [left, right, merged, rank] : rules) {
    const std::uint64_t both = std::uint64_t{length(left)} + length(right);
    if (length(left) == 0 || length(right) == 0 || both > longest_token ||
        needed[static_cast<std::size_t>(merged)] ||
        (length(merged) != 0 && length(merged) != both)) {
      return std::nullopt;
    }
    length(merged) = static_cast<std::uint32_t>(both);
    needed[static_cast<std::size_t>(left)] = true;
    needed[static_cast<std::size_t>(right)] = true;
    sum += length(left);
  }
  return sum;
}

std::span<const TokenId> BpeModel::encode_front(
    std::string_view& word,
    BpeScratch& scratch) const {
  const std::size_t window = 2 * reach_.value_or(0) + smallest_window;
  if (!reach_ || word.size() <= window) {
    return encode_whole(std::exchange(word, {}), scratch);
  }
  const auto symbols = encode_whole(word.substr(0, window), scratch);
  std::size_t bytes = 0;
  std::size_t count = 0;
  for (; count < symbols.size(); ++count) {
    const auto next = lengths_[static_cast<std::size_t>(symbols[count])];
    if (bytes + next > window - *reach_) {
      break;
    }
    bytes += next;
  }
  word.remove_prefix(bytes);
  return symbols.first(count);
}

std::span<const TokenId> BpeModel::encode_whole(
    std::string_view word,
    BpeScratch& scratch) const {
  if (word.size() > longest) {
    throw DataError(
        {.what = "a word without any break is too long for this tokenizer, "
                 "whose merges are out of order",
         .values = fmt::format("{} bytes", word.size()),
         .remedy = "break it, or leave the document out"});
  }
  auto& symbols = scratch.symbols;
  symbols.resize(word.size());
  for (std::size_t i = 0; i < word.size(); ++i) {
    symbols[i] = bytes_[static_cast<unsigned char>(word[i])];
    if (symbols[i] < 0) {
      throw DataError(
          {.what = fmt::format(
               "the vocabulary has no token for the byte 0x{:02x}",
               static_cast<unsigned char>(word[i]))});
    }
  }
  if (symbols.size() > short_limit) {
    merge_long(scratch);
  } else if (symbols.size() > 1) {
    merge_short(scratch);
  }
  return symbols;
}

void BpeModel::merge_short(BpeScratch& scratch) const {
  scratch.merges.resize(scratch.symbols.size());
  TokenId* symbols = scratch.symbols.data();
  // merges[i] is the merge of symbols i and i + 1.
  MergeTable::Merge* merges = scratch.merges.data();
  std::size_t pairs = scratch.symbols.size() - 1;
  for (std::size_t i = 0; i < pairs; ++i) {
    merges[i] = merges_.find(symbols[i], symbols[i + 1]);
  }
  while (pairs > 0) {
    MergeTable::Merge best = MergeTable::none;
    std::size_t at = 0;
    for (std::size_t i = 0; i < pairs; ++i) {
      if (merges[i] < best) {
        best = merges[i];
        at = i;
      }
    }
    if (best == MergeTable::none) {
      break;
    }
    symbols[at] = MergeTable::merged(best);
    std::copy(symbols + at + 2, symbols + pairs + 1, symbols + at + 1);
    std::copy(merges + at + 1, merges + pairs, merges + at);
    --pairs;
    if (at < pairs) {
      merges[at] = merges_.find(symbols[at], symbols[at + 1]);
    }
    if (at > 0) {
      merges[at - 1] = merges_.find(symbols[at - 1], symbols[at]);
    }
  }
  scratch.symbols.resize(pairs + 1);
}

/// Merges with a linked list of symbols and a heap of (rank, position): n log n
/// for a word of any length. Entries that a merge makes stale stay in the heap;
/// they are recognised when they come up, because their rank is no longer that
/// of the pair at their position.
void BpeModel::merge_long(BpeScratch& scratch) const {
  auto& symbols = scratch.symbols;
  auto& next = scratch.next;
  auto& previous = scratch.previous;
  auto& queue = scratch.queue;
  const auto count = static_cast<std::uint32_t>(symbols.size());
  next.resize(count);
  previous.resize(count);
  queue.clear();
  const auto rank_at = [&](std::uint32_t left, std::uint32_t right) {
    return MergeTable::rank(merges_.find(symbols[left], symbols[right]));
  };
  constexpr auto no_rank = MergeTable::rank(MergeTable::none);
  const auto entry = [](std::uint32_t rank, std::uint32_t at) {
    return static_cast<std::uint64_t>(rank) << 32 | at;
  };
  for (std::uint32_t i = 0; i < count; ++i) {
    previous[i] = i == 0 ? nothing : i - 1;
    next[i] = i + 1 == count ? nothing : i + 1;
    if (i + 1 < count) {
      if (const auto rank = rank_at(i, i + 1); rank != no_rank) {
        queue.push_back(entry(rank, i));
      }
    }
  }
  std::make_heap(queue.begin(), queue.end(), std::greater<>());
  const auto push = [&](std::uint32_t left, std::uint32_t right) {
    if (left == nothing || right == nothing) {
      return;
    }
    if (const auto rank = rank_at(left, right); rank != no_rank) {
      queue.push_back(entry(rank, left));
      std::push_heap(queue.begin(), queue.end(), std::greater<>());
    }
  };
  while (!queue.empty()) {
    std::pop_heap(queue.begin(), queue.end(), std::greater<>());
    const std::uint64_t top = queue.back();
    queue.pop_back();
    const auto left = static_cast<std::uint32_t>(top & nothing);
    const std::uint32_t right = next[left];
    if (symbols[left] < 0 || right == nothing) {
      continue;
    }
    const auto merge = merges_.find(symbols[left], symbols[right]);
    if (MergeTable::rank(merge) != top >> 32) {
      continue;
    }
    symbols[left] = MergeTable::merged(merge);
    symbols[right] = -1; // gone
    next[left] = next[right];
    if (next[left] != nothing) {
      previous[next[left]] = left;
    }
    push(previous[left], left);
    push(left, next[left]);
  }
  std::erase(symbols, -1);
  if (count > kept_scratch) {
    next = {};
    previous = {};
    queue = {};
  }
}

} // namespace cairn::text
