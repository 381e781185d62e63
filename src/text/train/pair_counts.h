#pragma once

#include "text/hash_bytes.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cairn::text {

/// Two neighbouring tokens; compares as (left, right).
struct TokenPair {
  std::uint32_t left = 0;
  std::uint32_t right = 0;
  auto operator<=>(const TokenPair&) const = default;
};

/// A count for every pair that was ever asked for: a list, with a flat hash
/// table of indices into it.
class PairCounts {
 public:
  struct Entry {
    TokenPair pair;
    std::int64_t count = 0;
  };

  PairCounts() : slots_(1 << 12) {}

  /// The index of the pair's entry, which never changes; a new entry has count
  /// 0.
  std::uint32_t find_or_add(TokenPair pair) {
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t at = home(pair) & mask;; at = (at + 1) & mask) {
      if (slots_[at] == 0) {
        entries_.push_back({pair});
        slots_[at] = static_cast<std::uint32_t>(entries_.size());
        if (entries_.size() * 4 > slots_.size() * 3) {
          grow();
        }
        return static_cast<std::uint32_t>(entries_.size() - 1);
      }
      if (entries_[slots_[at] - 1].pair == pair) {
        return slots_[at] - 1;
      }
    }
  }

  Entry& operator[](std::uint32_t place) { return entries_[place]; }

 private:
  static std::size_t home(TokenPair pair) { return mix(pair.left, pair.right); }

  void grow() {
    slots_.assign(slots_.size() * 2, 0);
    const std::size_t mask = slots_.size() - 1;
    for (std::uint32_t i = 0; i < entries_.size(); ++i) {
      std::size_t at = home(entries_[i].pair) & mask;
      while (slots_[at] != 0) {
        at = (at + 1) & mask;
      }
      slots_[at] = i + 1;
    }
  }

  std::vector<Entry> entries_;
  std::vector<std::uint32_t> slots_; ///< index + 1; 0 is free
};

} // namespace cairn::text
