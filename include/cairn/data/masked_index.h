#pragma once

#include <cairn/data/index_array.h>
#include <cairn/data/indexed_dataset.h>
#include <cairn/data/split.h>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace cairn::data {

/// Which sentences make up which sample of BERT and T5 datasets, in the order
/// of training: row for row what Megatron's build_mapping gives.
///
/// A sample is a run of sentences of one document, as many as reach the target
/// length. Documents with too few sentences, or with one of more than 512
/// tokens among several, give none.
class MaskedIndex {
 public:
  struct Options {
    std::uint32_t seed = 1234;
    /// Tokens that a sample may have, besides special ones.
    std::int64_t max_length = 0;
    /// One in round(1 / this) samples gets a random, shorter target.
    double short_probability = 0.1;
    std::int64_t min_sentences = 1;
    /// Whole epochs until there are at least so many; absent: one epoch.
    std::optional<std::int64_t> samples{};
  };

  struct Row {
    std::size_t first = 0; ///< sentence
    std::size_t end = 0;
    std::int64_t target_length = 0;
    bool operator==(const Row&) const = default;
  };

  /// Documents without a single sample among them, when some are asked for,
  /// are a DataError.
  MaskedIndex(
      const IndexedDataset& sentences,
      ElementRange documents,
      const Options& options);

  /// Of an array that array() gave, perhaps from a file. Another type or shape
  /// is a DataError.
  explicit MaskedIndex(IndexArray rows);

  std::size_t size() const noexcept { return rows_.size() / 3; }
  Row operator[](std::size_t sample) const;

  /// uint32 or, where sentences cannot be counted in 32 bits, uint64; a row for
  /// each sample: first sentence, end, target length.
  const IndexArray& array() const noexcept { return rows_; }
  /// Reads everything: for agreement between ranks.
  std::uint64_t checksum() const { return rows_.checksum(); }

 private:
  IndexArray rows_;
};

} // namespace cairn::data
