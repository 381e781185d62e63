#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace cairn::corpus {

/// Reads lines that each hold a document as a JSON object, and writes them
/// again with another text and everything else unchanged. Serves one thread.
class DocumentLine {
 public:
  DocumentLine(std::string text_key, std::string url_key);
  ~DocumentLine();

  /// Parses a line, which must be followed by data::LineBlock::padding readable
  /// bytes. Throws DataError that says what is wrong, but not where.
  void parse(std::string_view line);

  // Values of the last line, valid until the next one is parsed.
  std::string_view text() const;
  std::optional<std::string_view> url() const;

  /// The last line with another text, ended by "\n". The bytes of the line must
  /// still be there.
  std::string with_text(std::string_view text);

 private:
  struct State;
  static std::string_view text_token(State& state);
  std::unique_ptr<State> state_;
};

} // namespace cairn::corpus
