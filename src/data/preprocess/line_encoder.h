#pragma once

#include "data/internal/json_line.h"
#include "data/internal/line_reader.h"
#include "data/internal/preprocess.h"

#include <cairn/data/indexed_writer.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::data {

/// The result of encoding a block of lines.
struct EncodedLines {
  /// The block of partition p and key k is at p * keys + k.
  std::vector<SequenceBlock> parts;
  std::uint64_t documents = 0;
  std::uint64_t skipped = 0;
  std::vector<std::string> complaints; ///< about the first skipped lines

  void clear();
};

/// Turns lines into tokens, for one thread.
class LineEncoder {
 public:
  LineEncoder(const PreprocessOptions& options, TokenType type);

  /// Takes away the tokens so far, also in the middle of a sequence, so that
  /// the tokens of a huge document need not fit in memory.
  using Spill = std::function<void(EncodedLines&)>;

  /// Encodes a block. `line_index` is the number of lines in all inputs before
  /// it. Without `spill` all tokens are in `out` at the end. With
  /// OnError::fail, throws DataError with file and line for the first broken
  /// line.
  void encode(
      LineBlock& block,
      std::uint64_t line_index,
      EncodedLines& out,
      const Spill& spill);

 private:
  void encode_line(
      std::span<char> line,
      std::span<SequenceBlock> keys,
      const std::function<void()>& spill);
  void encode_text(
      std::string_view text,
      SequenceBlock& block,
      const std::function<void()>& spill);
  void encode_sentence(
      std::string_view text,
      SequenceBlock& block,
      const std::function<void()>& spill);

  const PreprocessOptions& options_;
  TokenType type_;
  JsonLineParser parser_;
  std::unique_ptr<text::Encoder> encoder_;
  std::vector<text::TokenId> ids_;
  bool spilled_ = false;        ///< the current line was spilled in part
  std::uint64_t sequences_ = 0; ///< of the text being encoded
  std::vector<std::string_view> sentences_;
};

} // namespace cairn::data
