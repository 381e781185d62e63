#include "text/internal/word_counter.h"

#include "text/hash_bytes.h"
#include "text/schemes/bpe/gpt2_splitter.h"

#include <bit>
#include <cstring>

namespace cairn::text {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::size_t longest_short = 15;
constexpr int length_shift = 56; // the length is in the last byte
constexpr std::uint64_t long_mark = std::uint64_t{0xff} << length_shift;
constexpr std::size_t first_slots = 1 << 12;

bool is_long(std::uint64_t high) {
  return (high & long_mark) == long_mark;
}

} // namespace

WordCounter::WordCounter()
    : WordCounter(std::make_shared<const Gpt2Splitter>()) {}

WordCounter::WordCounter(std::shared_ptr<const Gpt2Splitter> splitter)
    : splitter_(std::move(splitter)), slots_(first_slots) {}

WordCounter::~WordCounter() = default;
WordCounter::WordCounter(WordCounter&&) noexcept = default;
WordCounter& WordCounter::operator=(WordCounter&&) noexcept = default;

WordCounter WordCounter::fresh() const {
  return WordCounter(splitter_);
}

std::size_t WordCounter::hash(Key key) {
  return is_long(key.high) ? key.low : mix(key.low, key.high);
}

WordCounter::Key WordCounter::short_key(
    const char* word,
    std::size_t size,
    bool readable) {
  // Two loads and a mask are far quicker than a copy of variable length, but
  // they read 16 bytes.
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  if (readable) {
    const auto kept = [](std::size_t bytes) {
      return bytes >= 8 ? ~std::uint64_t{0}
                        : (std::uint64_t{1} << (8 * bytes)) - 1;
    };
    std::memcpy(&low, word, 8);
    std::memcpy(&high, word + 8, 8);
    low &= kept(size);
    high &= size > 8 ? kept(size - 8) : 0;
  } else {
    char bytes[16] = {};
    std::memcpy(bytes, word, size);
    std::memcpy(&low, bytes, 8);
    std::memcpy(&high, bytes + 8, 8);
  }
  return {low, high | static_cast<std::uint64_t>(size) << length_shift};
}

void WordCounter::add(std::string_view text) {
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    const char* const next = splitter_->next(at, end);
    const auto size = static_cast<std::size_t>(next - at);
    if (size <= longest_short) {
      count_short(short_key(at, size, end - at >= 16), 1);
    } else {
      count_long({at, size}, 1);
    }
    at = next;
  }
}

void WordCounter::add(const WordCounter& other) {
  for (const Slot& slot : other.slots_) {
    if (slot.count == 0) {
      continue;
    }
    if (is_long(slot.key.high)) {
      count_long(other.long_[slot.key.high & ~long_mark], slot.count);
    } else {
      count_short(slot.key, slot.count);
    }
  }
}

void WordCounter::count_short(Key key, std::uint64_t count) {
  total_ += count;
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t at = hash(key) & mask;; at = (at + 1) & mask) {
    Slot& slot = slots_[at];
    if (slot.count == 0) {
      slot = {key, count};
      grow();
      return;
    }
    if (slot.key.low == key.low && slot.key.high == key.high) {
      slot.count += count;
      return;
    }
  }
}

void WordCounter::count_long(std::string_view word, std::uint64_t count) {
  total_ += count;
  const std::uint64_t low = hash_bytes(word);
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t at = low & mask;; at = (at + 1) & mask) {
    Slot& slot = slots_[at];
    if (slot.count == 0) {
      slot = {{low, long_mark | long_.size()}, count};
      long_.emplace_back(word);
      grow();
      return;
    }
    if (slot.key.low == low && is_long(slot.key.high) &&
        long_[slot.key.high & ~long_mark] == word) {
      slot.count += count;
      return;
    }
  }
}

/// Counts a newly taken slot and grows the table when over three in four slots
/// are taken.
void WordCounter::grow() {
  if (++used_ * 4 <= slots_.size() * 3) {
    return;
  }
  std::vector<Slot> old(slots_.size() * 2);
  old.swap(slots_);
  const std::size_t mask = slots_.size() - 1;
  for (const Slot& slot : old) {
    if (slot.count == 0) {
      continue;
    }
    std::size_t at = hash(slot.key) & mask;
    while (slots_[at].count != 0) {
      at = (at + 1) & mask;
    }
    slots_[at] = slot;
  }
}

void WordCounter::visit(
    const std::function<void(std::string_view word, std::uint64_t count)>&
        visit) const {
  for (const Slot& slot : slots_) {
    if (slot.count == 0) {
      continue;
    }
    if (is_long(slot.key.high)) {
      visit(long_[slot.key.high & ~long_mark], slot.count);
    } else {
      char bytes[16];
      std::memcpy(bytes, &slot.key.low, 8);
      std::memcpy(bytes + 8, &slot.key.high, 8);
      visit({bytes, static_cast<unsigned char>(bytes[15])}, slot.count);
    }
  }
}

} // namespace cairn::text
