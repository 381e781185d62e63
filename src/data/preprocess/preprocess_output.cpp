#include "data/preprocess/preprocess_output.h"

#include <cairn/base/error.h>

#include <utility>

namespace cairn::data {
namespace {

void require_absent(const std::filesystem::path& file) {
  if (std::filesystem::exists(file)) {
    throw DataError(
        {.what = "the output exists already",
         .where = file.string(),
         .remedy = "give another --output-prefix, or --overwrite to replace "
                   "it"});
  }
}

} // namespace

PreprocessOutput::PreprocessOutput(
    const PreprocessOptions& options,
    TokenType type)
    : keys_(options.keys.size()), token_size_(size_of(type)) {
  if (options.existing == Existing::keep) {
    for (const auto& key : options.keys) {
      // Only the index counts: tokens without an index were left by a crash.
      require_absent(index_path(output_of(options, key)));
    }
  }
  for (const auto& key : options.keys) {
    writers_.emplace_back(
        output_of(options, key),
        IndexedWriter::Options{.format = options.format, .type = type});
  }
  for (std::size_t i = 1; i < options.partitions; ++i) {
    for (const auto& writer : writers_) {
      spools_.emplace_back(tokens_path(writer.prefix()));
    }
  }
}

void PreprocessOutput::append(const EncodedLines& lines) {
  for (std::size_t i = 0; i < lines.parts.size(); ++i) {
    const SequenceBlock& block = lines.parts[i];
    token_bytes_ += block.tokens.size();
    if (i < keys_) {
      writers_[i].append(block);
    } else {
      spools_[i - keys_].append(block);
    }
  }
}

void PreprocessOutput::commit() {
  for (std::size_t i = 0; i < spools_.size(); ++i) {
    spools_[i].move_to(writers_[i % keys_]);
  }
  spools_.clear();
  IndexedWriter::commit(writers_);
}

std::uint64_t PreprocessOutput::token_count() const {
  return token_bytes_ / token_size_;
}

std::uint64_t PreprocessOutput::bytes_written() const {
  std::uint64_t bytes = token_bytes_;
  for (const auto& writer : writers_) {
    bytes += std::filesystem::file_size(index_path(writer.prefix()));
  }
  return bytes;
}

} // namespace cairn::data
