#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::text {

class Gpt2Splitter;

/// Counts words, where words are the pieces that GPT-2's pattern cuts text
/// into. A counter belongs to one thread; add() joins the counters of several
/// threads at the end.
class WordCounter {
 public:
  WordCounter();
  ~WordCounter();
  WordCounter(WordCounter&&) noexcept;
  WordCounter& operator=(WordCounter&&) noexcept;

  /// An empty counter that shares this one's character tables.
  WordCounter fresh() const;

  /// Counts the words of a text, which may be any bytes. Words do not continue
  /// from one text to the next.
  void add(std::string_view text);

  /// Adds the counts of `other`.
  void add(const WordCounter& other);

  std::size_t distinct() const noexcept { return used_; }
  std::uint64_t total() const noexcept { return total_; }

  /// Calls `visit` for every word, in no particular order.
  void visit(
      const std::function<void(std::string_view word, std::uint64_t count)>&
          visit) const;

 private:
  /// A word of up to 15 bytes lies in the key itself, with its length in the
  /// last byte. For a longer word the key holds the hash and the index in
  /// `long_`.
  struct Key {
    std::uint64_t low = 0;
    std::uint64_t high = 0;
  };
  struct Slot {
    Key key;
    std::uint64_t count = 0; ///< 0: the slot is free
  };

  explicit WordCounter(std::shared_ptr<const Gpt2Splitter> splitter);
  static std::size_t hash(Key key);
  static Key short_key(const char* word, std::size_t size, bool readable);
  void count_short(Key key, std::uint64_t count);
  void count_long(std::string_view word, std::uint64_t count);
  void grow();

  std::shared_ptr<const Gpt2Splitter> splitter_;
  std::vector<Slot> slots_; ///< their number is a power of two; never full
  std::size_t used_ = 0;
  std::uint64_t total_ = 0;
  std::vector<std::string> long_;
};

} // namespace cairn::text
