#pragma once

#include "text/hash_bytes.h"

#include <cairn/text/tokenizer.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace cairn::text {

/// The ids of words seen before, for one thread. The cache is bounded: a word
/// may replace another, and when the store of long words and long answers is
/// full, everything in it is forgotten.
class WordCache {
 public:
  static constexpr std::size_t short_word = 15;    ///< bytes
  static constexpr std::size_t longest_word = 255; ///< the longest kept

  /// A word of at most `short_word` bytes as two numbers, its length included.
  struct ShortKey {
    std::uint64_t low = 0;
    std::uint64_t high = 0;
    bool operator==(const ShortKey&) const = default;
  };

  struct ShortEntry {
    static constexpr std::uint32_t inline_ids = 3;

    ShortKey key;
    std::uint32_t count = 0; ///< number of ids; 0: no entry
    /// The ids, or, when there are more, the index in the store where they
    /// start.
    std::array<TokenId, inline_ids> ids{};
  };

  WordCache();

  /// Makes the key. It may read up to `text_end`, past the word but not past
  /// the text.
  static ShortKey short_key(std::string_view word, const char* text_end) {
    ShortKey key;
    const std::size_t size = word.size();
    if (text_end - word.data() >= 16) {
      std::memcpy(&key.low, word.data(), 8);
      std::memcpy(&key.high, word.data() + 8, 8);
      key.low &= masks[size].low;
      key.high &= masks[size].high;
    } else {
      std::array<char, 16> bytes{};
      std::memcpy(bytes.data(), word.data(), size);
      std::memcpy(&key.low, bytes.data(), 8);
      std::memcpy(&key.high, bytes.data() + 8, 8);
    }
    key.high |= static_cast<std::uint64_t>(size) << 56;
    return key;
  }

  /// The entry of a short word; null if it is unknown.
  const ShortEntry* find(const ShortKey& key) const {
    const ShortEntry* entry = &short_[short_home(key)];
    for (std::size_t i = 0; i < window; ++i, ++entry) {
      if (entry->key == key) {
        return entry;
      }
    }
    return nullptr;
  }
  std::span<const TokenId> ids(const ShortEntry& entry) const {
    return entry.count <= ShortEntry::inline_ids
        ? std::span(entry.ids).first(entry.count)
        : stored(static_cast<std::uint32_t>(entry.ids[0]), entry.count);
  }
  void insert(const ShortKey& key, std::span<const TokenId> ids);

  /// The ids of a longer word, valid until the next insert; empty if it is
  /// unknown.
  std::span<const TokenId> find_long(std::string_view word) const;
  void insert_long(std::string_view word, std::span<const TokenId> ids);

 private:
  struct LongEntry {
    std::uint64_t hash = 0;
    std::uint32_t word = 0; ///< offset in `words_`
    std::uint32_t size = 0; ///< 0: no entry
    std::uint32_t ids = 0;
    std::uint32_t count = 0;
  };

  /// The number of neighbouring slots that a word may be in.
  static constexpr std::size_t window = 4;
  static constexpr std::size_t short_slots = std::size_t{1} << 16;
  static constexpr std::size_t long_slots = std::size_t{1} << 15;
  static constexpr std::size_t store_limit = std::size_t{1} << 20;

  static constexpr std::array<ShortKey, 16> make_masks() {
    std::array<ShortKey, 16> all{};
    for (std::size_t size = 0; size < 16; ++size) {
      all[size].low =
          size >= 8 ? ~std::uint64_t{0} : (std::uint64_t{1} << size * 8) - 1;
      all[size].high = size <= 8 ? 0 : (std::uint64_t{1} << (size - 8) * 8) - 1;
    }
    return all;
  }
  static const std::array<ShortKey, 16> masks;

  static std::size_t short_home(const ShortKey& key) {
    return mix(key.low, key.high) & (short_slots - 1);
  }
  std::span<const TokenId> stored(std::uint32_t at, std::size_t count) const {
    return std::span(ids_).subspan(at, count);
  }
  std::uint32_t store(std::span<const TokenId> ids);
  bool has_room(std::size_t words, std::size_t ids) const;
  void forget();

  std::vector<ShortEntry> short_; ///< `short_slots` + `window`
  std::vector<LongEntry> long_;
  std::vector<char> words_;
  std::vector<TokenId> ids_;
};

inline constexpr std::array<WordCache::ShortKey, 16> WordCache::masks =
    WordCache::make_masks();

} // namespace cairn::text
