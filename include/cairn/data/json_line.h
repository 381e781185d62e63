#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::data {

/// Strings that follow each other in memory, each with a byte behind it that no
/// UTF-8 has: so that a list of any length takes no more room than its line.
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

/// Takes the texts under some keys out of lines that each hold a JSON object. A
/// text may be written as one string or as a list of strings, its sentences.
/// One parser serves one thread.
class JsonLineParser {
 public:
  explicit JsonLineParser(std::vector<std::string> keys);
  ~JsonLineParser();
  JsonLineParser(JsonLineParser&&) noexcept;

  /// `line` must be followed by LineBlock::padding readable bytes. Nothing is
  /// copied: escapes are resolved within the line, which is no JSON afterwards.
  /// A DataError says what is wrong, but not where: that only the caller knows.
  void parse(std::span<char> line);

  struct Text {
    TextParts parts; ///< of a list; else one
    bool is_list = false;
  };
  /// Of the last line, in the order of the keys; views of the line itself.
  std::span<const Text> texts() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Writes what the escapes of a JSON string stand for to `to`, and all else as
/// it is. The result is never longer, so `to` may be where `text` begins or
/// before it. Returns the end of it. An escape that stands for nothing is a
/// DataError.
char* unescape(std::string_view text, char* to);

} // namespace cairn::data
