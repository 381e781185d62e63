#pragma once

#include <cairn/text/word_counter.h>

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
  /// A pair that occurs less often is not merged.
  std::uint64_t min_frequency = 2;
  /// They get the first ids, in this order.
  std::vector<std::string> special_tokens{"<|endoftext|>"};
};

/// A byte-level BPE vocabulary, all text as its files write it.
struct TrainedBpe {
  std::vector<std::string> tokens; ///< by id
  std::size_t special_tokens = 0;  ///< how many of them, from the first
  /// Ids of the two tokens that become one, in order of importance.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> merges;
};

/// How many ids there are before the first merge: the special tokens and the
/// bytes. Throws ConfigError for options that cannot be met.
std::size_t first_merged_id(const BpeTrainerOptions& options);

/// Learns the merges that Hugging Face's trainer learns of the same words: time
/// and again of the most frequent pair of neighbours, and of those that are
/// equally frequent of the one with the smaller ids. Calls `merged`, if there
/// is one, after every merge.
TrainedBpe train_bpe(
    const WordCounter& words,
    const BpeTrainerOptions& options,
    const std::function<void()>& merged = {});

/// Finds out before the work whether write_tokenizer() can write there, and
/// makes the folders above it. DataError unless `folder` is missing or empty.
void prepare_tokenizer_folder(const std::filesystem::path& folder);

/// Writes vocab.json, merges.txt and tokenizer.json, byte for byte as Hugging
/// Face's library does. A folder that is missing appears with all three or not
/// at all; into one that is there and empty they come one by one,
/// tokenizer.json last.
void write_tokenizer(
    const TrainedBpe& trained,
    const std::filesystem::path& folder);

} // namespace cairn::text
