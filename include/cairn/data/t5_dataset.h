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
  /// Minimum number of samples, made of whole epochs; empty: one epoch.
  std::optional<std::int64_t> samples{};

  MaskedIndex::Options index() const; ///< the options that matter to the index
};

/// A sample. Attention masks are not stored: a model makes them as outer
/// products of `encoder_mask` and `decoder_mask`.
struct T5Sample {
  /// The text, with a sentinel in place of each removed span.
  std::vector<std::int64_t> encoder_text;
  /// A begin token, then each sentinel and the span it stands for.
  std::vector<std::int64_t> decoder_text;
  /// decoder_text shifted by one, with an end token; -1 after that.
  std::vector<std::int64_t> labels;
  std::vector<std::int64_t> loss_mask;    ///< 1 where there is a label
  std::vector<std::int64_t> encoder_mask; ///< 1 where there is text
  std::vector<std::int64_t> decoder_mask;
  bool truncated = false;

  MaskedScratch scratch{};
};

/// T5's span corruption over files that were preprocessed with
/// --split-sentences; sample for sample Megatron's T5MaskedWordPieceDataset. A
/// sample depends on (seed, index) alone. Any number of threads may read, each
/// into its own sample.
class T5Dataset : public MaskedDataset {
 public:
  using Sample = T5Sample;

  T5Dataset(
      std::shared_ptr<const IndexedDataset> sentences,
      MaskedSource source,
      MaskedVocabulary vocabulary,
      const T5Options& options);

  /// Reads a sample; allocates nothing when `sample` has been used before.
  /// Throws DataError for more spans than there are sentinels, or than the
  /// decoder has room for.
  void read(std::size_t index, Sample& sample) const;

 private:
  T5Options options_;
  std::int64_t begin_ = 0;
  std::int64_t end_ = 0;
  std::int64_t pad_ = 0;
};

} // namespace cairn::data
