#pragma once

#include <cairn/data/masked_dataset.h>

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

  MaskedScratch scratch{};
};

/// T5's span corruption over files that were preprocessed with
/// --split-sentences; sample for sample Megatron's T5MaskedWordPieceDataset. A
/// sample depends on (seed, index) alone, and any number of threads may read,
/// each into a sample of its own.
class T5Dataset : public MaskedDataset {
 public:
  using Sample = T5Sample;

  T5Dataset(
      std::shared_ptr<const IndexedDataset> sentences,
      MaskedSource source,
      MaskedVocabulary vocabulary,
      const T5Options& options);

  /// Allocates nothing once `sample` has been used. More spans than sentinels,
  /// or than the decoder has room for, are a DataError.
  void read(std::size_t index, Sample& sample) const;

 private:
  T5Options options_;
  std::int64_t begin_ = 0;
  std::int64_t end_ = 0;
  std::int64_t pad_ = 0;
};

} // namespace cairn::data
