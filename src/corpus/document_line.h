#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace cairn::corpus {

/// Reads lines that each hold a document as a JSON object, and writes them
/// again with another text and everything else as it was. One serves one
/// thread.
class DocumentLine {
 public:
  DocumentLine(std::string text_key, std::string url_key);
  ~DocumentLine();

  /// `line` must be followed by data::LineBlock::padding readable bytes. What
  /// is no such document is a DataError that says what is wrong, not where.
  void parse(std::string_view line);

  // Of the last line, valid until the next.
  std::string_view text() const;
  std::optional<std::string_view> url() const;

  /// The last line, whose bytes must still be there, with another text; ends
  /// with "\n".
  std::string with_text(std::string_view text);

 private:
  struct State;
  static std::string_view text_token(State& state);
  std::unique_ptr<State> state_;
};

} // namespace cairn::corpus
