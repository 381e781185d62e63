#include "text/schemes/parts/word_cache.h"

#include <algorithm>

namespace cairn::text {

WordCache::WordCache()
    : short_(short_slots + window), long_(long_slots + window) {}

bool WordCache::has_room(std::size_t words, std::size_t ids) const {
  return words_.size() + words <= store_limit &&
      ids_.size() + ids <= store_limit;
}

void WordCache::forget() {
  std::fill(short_.begin(), short_.end(), ShortEntry());
  std::fill(long_.begin(), long_.end(), LongEntry());
  words_.clear();
  ids_.clear();
}

std::uint32_t WordCache::store(std::span<const TokenId> ids) {
  const auto at = static_cast<std::uint32_t>(ids_.size());
  ids_.insert(ids_.end(), ids.begin(), ids.end());
  return at;
}

void WordCache::insert(const ShortKey& key, std::span<const TokenId> ids) {
  if (ids.empty()) {
    return;
  }
  ShortEntry entry{.key = key, .count = static_cast<std::uint32_t>(ids.size())};
  if (ids.size() <= ShortEntry::inline_ids) {
    std::copy(ids.begin(), ids.end(), entry.ids.begin());
  } else {
    if (!has_room(0, ids.size())) {
      forget();
    }
    entry.ids[0] = static_cast<TokenId>(store(ids));
  }
  const auto first =
      short_.begin() + static_cast<std::ptrdiff_t>(short_home(key));
  const auto free =
      std::find_if(first, first + window, [](const ShortEntry& e) {
        return e.count == 0;
      });
  // When all places of the window are taken, the new word replaces the first.
  *(free != first + window ? free : first) = entry;
}

std::span<const TokenId> WordCache::find_long(std::string_view word) const {
  const std::uint64_t hash = hash_bytes(word);
  const LongEntry* entry = &long_[hash & (long_slots - 1)];
  for (std::size_t i = 0; i < window; ++i, ++entry) {
    if (entry->hash == hash && entry->size == word.size() &&
        std::memcmp(words_.data() + entry->word, word.data(), word.size()) ==
            0) {
      return stored(entry->ids, entry->count);
    }
  }
  return {};
}

void WordCache::insert_long(
    std::string_view word,
    std::span<const TokenId> ids) {
  if (word.size() > longest_word || word.empty() || ids.empty()) {
    return;
  }
  if (!has_room(word.size(), ids.size())) {
    forget();
  }
  const std::uint64_t hash = hash_bytes(word);
  const LongEntry entry{
      .hash = hash,
      .word = static_cast<std::uint32_t>(words_.size()),
      .size = static_cast<std::uint32_t>(word.size()),
      .ids = store(ids),
      .count = static_cast<std::uint32_t>(ids.size())};
  words_.insert(words_.end(), word.begin(), word.end());
  const auto first =
      long_.begin() + static_cast<std::ptrdiff_t>(hash & (long_slots - 1));
  const auto free = std::find_if(first, first + window, [](const LongEntry& e) {
    return e.size == 0;
  });
  *(free != first + window ? free : first) = entry;
}

} // namespace cairn::text
