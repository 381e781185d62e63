#pragma once

#include <cairn/data/json_line.h>
#include <cairn/data/line_reader.h>
#include <cairn/data/preprocess.h>
#include <cairn/data/sequence_block.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::data {

/// What became of a block of lines.
struct EncodedLines {
  /// Partition p of key k is at p * keys + k.
  std::vector<SequenceBlock> parts;
  std::uint64_t documents = 0;
  std::uint64_t skipped = 0;
  std::vector<std::string> complaints; ///< of the first lines skipped

  void clear();
};

/// One thread's way from lines to tokens.
class LineEncoder {
 public:
  LineEncoder(const PreprocessOptions& options, TokenType type);

  /// Takes away what there is, in the middle of a sequence, so that what a huge
  /// document becomes need not be in memory.
  using Spill = std::function<void(EncodedLines&)>;

  /// `line_index` counts the lines of all inputs before this block. Without
  /// `spill` everything is in `out` at the end. With OnError::fail the first
  /// line that is broken is a DataError with file and line.
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
  bool spilled_ = false;        ///< some of the line's tokens
  std::uint64_t sequences_ = 0; ///< of the line's text that is encoded
  std::vector<std::string_view> sentences_;
};

} // namespace cairn::data
