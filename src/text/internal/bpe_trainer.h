#pragma once

#include "text/internal/word_counter.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace cairn::text {

struct BpeTrainerOptions {
  std::size_t vocab_size = 52000;
  /// Pairs that occur less often than this are not merged.
  std::uint64_t min_frequency = 2;
  /// Special tokens; they get the first ids, in this order.
  std::vector<std::string> special_tokens{"<|endoftext|>"};
};

/// A byte-level BPE vocabulary, with tokens spelled as in its files.
struct TrainedBpe {
  std::vector<std::string> tokens; ///< by id
  /// Number of special tokens, which come first.
  std::size_t special_tokens = 0;
  /// Pairs of ids that become one token, the most important pair first.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> merges;
};

/// The number of ids before the first merge: special tokens and bytes. Throws
/// ConfigError for options that cannot be met.
std::size_t first_merged_id(const BpeTrainerOptions& options);

/// Learns the merges that Hugging Face's trainer learns from the same words. It
/// always merges the most frequent pair of neighbours; of equally frequent
/// pairs, the one with the smaller ids. Calls `merged`, if given, after every
/// merge.
TrainedBpe train_bpe(
    const WordCounter& words,
    const BpeTrainerOptions& options,
    const std::function<void()>& merged = {});

/// Checks before the work that write_tokenizer() can write to `folder`, and
/// makes the folders above it. Throws DataError unless `folder` is missing or
/// empty.
void prepare_tokenizer_folder(const std::filesystem::path& folder);

/// Writes vocab.json, merges.txt and tokenizer.json, byte for byte as Hugging
/// Face's library does. A missing folder appears with all three files or not at
/// all. An existing empty folder gets them one by one, tokenizer.json last.
void write_tokenizer(
    const TrainedBpe& trained,
    const std::filesystem::path& folder);

} // namespace cairn::text
