#pragma once

#include <cairn/data/indexed_dataset.h>
#include <cairn/data/masked_index.h>
#include <cairn/data/masked_vocabulary.h>
#include <cairn/data/split.h>
#include <cairn/data/token_masker.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace cairn::data {

struct T5Options {
  std::uint32_t seed = 1234;
  std::int64_t sequence_length = 512;         ///< --encoder-seq-length
  std::int64_t decoder_sequence_length = 128; ///< --decoder-seq-length
  double short_sequence_probability = 0.1;    ///< --short-seq-prob
  MaskingOptions masking{.max_ngram = 10, .geometric = true};
  /// Whole epochs until there are at least so many; absent: one epoch.
  std::optional<std::int64_t> samples{};

  MaskedIndex::Options index() const; ///< of these, what counts for it
};

/// The attention masks that a model makes of `encoder_mask` and `decoder_mask`
/// are outer products of the two, and are not stored.
struct T5Sample {
  /// The text, with a sentinel for each span that was taken out.
  std::vector<std::int64_t> encoder_text;
  /// After a begin token, each sentinel and what it stands for.
  std::vector<std::int64_t> decoder_text;
  /// decoder_text one further, with an end token; -1 after that.
  std::vector<std::int64_t> labels;
  std::vector<std::int64_t> loss_mask;    ///< 1 where there is a label
  std::vector<std::int64_t> encoder_mask; ///< 1 where there is text
  std::vector<std::int64_t> decoder_mask;
  bool truncated = false;

  std::vector<std::int64_t> sentences{}; ///< memory that read() uses again
  MaskedTokens masked{};                 ///< likewise
};

/// T5's span corruption over files that were preprocessed with
/// --split-sentences; sample for sample Megatron's T5MaskedWordPieceDataset. A
/// sample depends on (seed, index) alone, and any number of threads may read,
/// each into a sample of its own.
class T5Dataset {
 public:
  using Sample = T5Sample;

  /// `documents` are those of one split: SplitShares::elements().
  T5Dataset(
      std::shared_ptr<const IndexedDataset> sentences,
      ElementRange documents,
      MaskedVocabulary vocabulary,
      const T5Options& options);

  /// With an index that is there already.
  T5Dataset(
      std::shared_ptr<const IndexedDataset> sentences,
      MaskedIndex index,
      MaskedVocabulary vocabulary,
      const T5Options& options);

  std::size_t size() const noexcept { return index_.size(); }
  const MaskedIndex& index() const noexcept { return index_; }

  /// Allocates nothing once `sample` has been used. More spans than sentinels,
  /// or than the decoder has room for, are a DataError.
  void read(std::size_t index, Sample& sample) const;

 private:
  std::shared_ptr<const IndexedDataset> sentences_;
  T5Options options_;
  TokenMasker masker_;
  std::int64_t begin_ = 0;
  std::int64_t end_ = 0;
  std::int64_t pad_ = 0;
  MaskedIndex index_;
};

} // namespace cairn::data
