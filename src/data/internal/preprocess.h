#pragma once

#include <cairn/base/log.h>
#include <cairn/data/indexed_dataset.h>
#include <cairn/text/sentence_splitter.h>
#include <cairn/text/tokenizer.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cairn::data {

enum class OnError { fail, skip };     ///< of a broken line
enum class Existing { keep, replace }; ///< `keep` refuses to replace outputs

struct PreprocessOptions {
  std::vector<std::filesystem::path> inputs; ///< paths for open_input()
  std::vector<std::string> keys{"text"};
  std::filesystem::path output_prefix;
  std::shared_ptr<const text::Tokenizer> tokenizer;
  IndexFormat format = IndexFormat::mmap;
  bool append_eod = false;
  /// Splits texts into sentences, which become sequences of their own; the
  /// files then end in _sentence.
  std::optional<text::SentenceSplitter> splitter;
  bool keep_newlines = false;
  std::size_t workers = 1;
  /// Deals the lines to this many piles and writes the piles one after another:
  /// the order that Megatron's --partitions gives.
  std::size_t partitions = 1;
  OnError on_error = OnError::fail;
  Existing existing = Existing::keep;
};

struct PreprocessReport {
  std::uint64_t documents = 0; ///< lines, and documents in each key's files
  std::uint64_t skipped = 0;
  std::uint64_t tokens = 0;
  std::uint64_t text_bytes = 0; ///< of the lines, unpacked
  std::uint64_t bytes_read = 0; ///< of the inputs as stored
  std::uint64_t bytes_written = 0;
  TokenType type = TokenType::int32;
  std::vector<std::filesystem::path> outputs; ///< prefixes, one per key
};

/// PREFIX_KEY_document or PREFIX_KEY_sentence, without .bin and .idx.
std::filesystem::path output_of(
    const PreprocessOptions& options,
    const std::string& key);

/// The size of all inputs as stored; 0 when one of them is a pipe.
std::uint64_t stored_size(const PreprocessOptions& options);

/// Turns JSON lines into token files, byte for byte as Megatron's
/// tools/preprocess_data.py does. All pairs appear together at the end, or none
/// does. Memory is bounded whatever the inputs are. `progress` is called on the
/// calling thread after some documents have been written.
PreprocessReport preprocess(
    const PreprocessOptions& options,
    const Logger& log,
    const std::function<void(const PreprocessReport&)>& progress);

} // namespace cairn::data
