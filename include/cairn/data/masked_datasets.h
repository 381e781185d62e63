#pragma once

#include <cairn/base/log.h>
#include <cairn/data/built_datasets.h>
#include <cairn/data/data_selection.h>
#include <cairn/data/masked_dataset.h>
#include <cairn/data/token_masker.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

// The datasets of BERT and T5, and their builders.

namespace cairn::data {

struct BertOptions {
  std::uint32_t seed = 1234;
  std::int64_t sequence_length = 512;
  /// Makes samples of two texts, half of them swapped; the model learns to tell
  /// which ones. False is --bert-no-binary-head.
  bool classification_head = true;
  double short_sequence_probability = 0.1; ///< --short-seq-prob
  MaskingOptions masking{};
  /// Minimum number of samples, made of whole epochs; empty: one epoch.
  std::optional<std::int64_t> samples{};

  MaskedIndex::Options index() const; ///< the options that matter to the index
};

/// A sample; every array has sequence_length elements.
struct BertSample {
  std::vector<std::int64_t> text;   ///< [CLS] A [SEP] B [SEP], some masked
  std::vector<std::int64_t> types;  ///< 0 for A, 1 for B
  std::vector<std::int64_t> labels; ///< the masked tokens, -1 elsewhere
  std::vector<std::int64_t> padding_mask; ///< 1 where there is text
  std::vector<std::int64_t> loss_mask;    ///< 1 where there is a label
  bool is_random = false;                 ///< A and B were swapped
  bool truncated = false;

  MaskedScratch scratch{};
};

/// BERT's masked words and sentence pairs over files that were preprocessed
/// with --split-sentences; sample for sample Megatron's
/// BERTMaskedWordPieceDataset. A sample depends on (seed, index) alone. Any
/// number of threads may read, each into its own sample.
class BertDataset : public MaskedDataset {
 public:
  using Sample = BertSample;

  BertDataset(
      std::shared_ptr<const IndexedDataset> sentences,
      MaskedSource source,
      MaskedVocabulary vocabulary,
      const BertOptions& options);

  /// Reads a sample; allocates nothing when `sample` has been used before.
  void read(std::size_t index, Sample& sample) const;

 private:
  BertOptions options_;
  std::int64_t classify_ = 0;
  std::int64_t separator_ = 0;
  std::int64_t pad_ = 0;
};

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

/// The sentences of each sample as indices, without their text: all that a
/// masked dataset has before it gets a vocabulary.
class MaskedRows {
 public:
  using Sample = MaskedIndex::Row;

  explicit MaskedRows(MaskedIndex index) : index_(std::move(index)) {}

  std::size_t size() const noexcept { return index_.size(); }
  const MaskedIndex& index() const noexcept { return index_; }
  void read(std::size_t index, Sample& row) const { row = index_[index]; }

 private:
  MaskedIndex index_;
};

using BertDatasets = BuiltDatasets<BertDataset>;
using T5Datasets = BuiltDatasets<T5Dataset>;
using MaskedIndices = BuiltDatasets<MaskedRows>;

// Builds training, validation and test data of BERT and T5, single or blended,
// as Megatron's BlendedMegatronDatasetBuilder does. `data` decides the number
// of samples; options that set their own number are refused.

BertDatasets build_masked_datasets(
    const DataSelection& data,
    const BertOptions& options,
    const MaskedVocabulary& vocabulary,
    const Logger& logger);
T5Datasets build_masked_datasets(
    const DataSelection& data,
    const T5Options& options,
    const MaskedVocabulary& vocabulary,
    const Logger& logger);

/// Builds only the indices, which need no vocabulary. `Options` is BertOptions
/// or T5Options.
template <typename Options>
MaskedIndices build_masked_indices(
    const DataSelection& data,
    const Options& options,
    const Logger& logger);

} // namespace cairn::data
