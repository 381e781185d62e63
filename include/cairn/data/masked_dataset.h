#pragma once

#include <cairn/data/data_selection.h>
#include <cairn/data/index_array.h>
#include <cairn/data/indexed_dataset.h>
#include <cairn/data/token_masker.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

namespace cairn::data {

/// The sentences that make up each sample of a BERT or T5 dataset, in the order
/// of training, row for row as in Megatron's build_mapping.
///
/// A sample is a run of sentences of one document, as many as reach the target
/// length. A document with too few sentences, or with a sentence of more than
/// 512 tokens among several, gives no samples.
class MaskedIndex {
 public:
  struct Options {
    std::uint32_t seed = 1234;
    /// Most tokens in a sample, not counting special ones.
    std::int64_t max_length = 0;
    /// Gives one in round(1 / short_probability) samples a random, shorter
    /// target.
    double short_probability = 0.1;
    std::int64_t min_sentences = 1;
    /// Minimum number of samples, made of whole epochs; empty: one epoch.
    std::optional<std::int64_t> samples{};
  };

  struct Row {
    std::size_t first = 0; ///< index of the first sentence
    std::size_t end = 0;
    std::int64_t target_length = 0;
    bool operator==(const Row&) const = default;
  };

  /// Builds the index. Throws DataError when samples are wanted but the
  /// documents give none.
  MaskedIndex(
      const IndexedDataset& sentences,
      ElementRange documents,
      const Options& options);

  /// Uses an array from array(), perhaps read from a file. Throws DataError for
  /// another type or shape.
  explicit MaskedIndex(IndexArray rows);

  std::size_t size() const noexcept { return rows_.size() / 3; }
  Row operator[](std::size_t sample) const;

  /// The index as an array with a row for each sample: first sentence, end,
  /// target length. The type is uint32, or uint64 if the sentences cannot be
  /// counted in 32 bits.
  const IndexArray& array() const noexcept { return rows_; }
  /// Checksum of all values, to compare between ranks.
  std::uint64_t checksum() const { return rows_.checksum(); }

 private:
  IndexArray rows_;
};

/// Documents to build an index from (those of one split:
/// SplitShares::elements()), or an existing index.
using MaskedSource = std::variant<ElementRange, MaskedIndex>;

/// Memory reused from one sample to the next.
struct MaskedScratch {
  std::vector<std::int64_t> sentences;
  MaskedTokens masked;
};

/// The common base of BERT and T5 datasets: sentences, the index of sentences
/// in each sample, and the masker with its vocabulary.
class MaskedDataset {
 public:
  std::size_t size() const noexcept { return index_.size(); }
  const MaskedIndex& index() const noexcept { return index_; }

 protected:
  MaskedDataset(
      std::shared_ptr<const IndexedDataset> sentences,
      MaskedSource source,
      const MaskedIndex::Options& index_options,
      TokenMasker masker);
  ~MaskedDataset() = default;
  MaskedDataset(const MaskedDataset&) = default;
  MaskedDataset(MaskedDataset&&) = default;
  MaskedDataset& operator=(const MaskedDataset&) = default;
  MaskedDataset& operator=(MaskedDataset&&) = default;

  const IndexedDataset& sentences() const noexcept { return *sentences_; }
  const TokenMasker& masker() const noexcept { return masker_; }

 private:
  std::shared_ptr<const IndexedDataset> sentences_;
  TokenMasker masker_;
  MaskedIndex index_;
};

} // namespace cairn::data
