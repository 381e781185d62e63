#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::data {

/// Strings that follow each other in memory, each ended by a byte that UTF-8
/// never contains. A list of any length thus takes no more room than its line.
class TextParts {
 public:
  class iterator {
   public:
    using value_type = std::string_view;
    using difference_type = std::ptrdiff_t;

    iterator() = default;
    std::string_view operator*() const { return part_; }
    iterator& operator++();
    iterator operator++(int) {
      iterator before = *this;
      ++*this;
      return before;
    }
    bool operator==(const iterator& other) const {
      return part_.data() == other.part_.data();
    }

   private:
    friend class TextParts;
    iterator(const char* at, const char* end);
    std::string_view part_;
    const char* end_ = nullptr;
  };

  TextParts() = default;
  explicit TextParts(std::string_view bytes) : bytes_(bytes) {}
  iterator begin() const;
  iterator end() const;

 private:
  std::string_view bytes_;
};

/// Extracts the texts under some keys from lines that each hold a JSON object.
/// A text may be one string or a list of strings, its sentences. A parser
/// belongs to one thread.
class JsonLineParser {
 public:
  explicit JsonLineParser(std::vector<std::string> keys);
  ~JsonLineParser();
  JsonLineParser(JsonLineParser&&) noexcept;

  /// Parses a line, which must be followed by LineBlock::padding readable
  /// bytes. Nothing is copied: escapes are resolved within the line, which is
  /// no longer JSON afterwards. Throws DataError that says what is wrong but
  /// not where, which only the caller knows.
  void parse(std::span<char> line);

  struct Text {
    TextParts parts; ///< the strings of a list, or one text
    bool is_list = false;
  };
  /// The texts of the last line, in the order of the keys; views into the line.
  std::span<const Text> texts() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Writes `text` to `to` with the escapes of a JSON string resolved, and
/// returns the end. The result is never longer, so `to` may be at or before the
/// start of `text`. Throws DataError for an invalid escape.
char* unescape(std::string_view text, char* to);

} // namespace cairn::data
