#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::data {

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
    std::vector<std::string_view> parts; ///< of a list; else one
    bool is_list = false;
  };
  /// Of the last line, in the order of the keys; views of the line itself.
  std::span<const Text> texts() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Resolves the escapes of a JSON string in place and returns what is left,
/// which is never longer. An escape that stands for nothing is a DataError.
std::string_view unescape_in_place(std::span<char> text);

/// Offset of the first byte that is no UTF-8; the size when all is well.
std::size_t find_invalid_utf8(std::string_view text);

} // namespace cairn::data
