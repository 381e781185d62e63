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

struct BertOptions {
  std::uint32_t seed = 1234;
  std::int64_t sequence_length = 512;
  /// Samples are pairs of text, half of them swapped, for the task of telling
  /// which (off: --bert-no-binary-head).
  bool classification_head = true;
  double short_sequence_probability = 0.1; ///< --short-seq-prob
  MaskingOptions masking{};
  /// Whole epochs until there are at least so many; absent: one epoch.
  std::optional<std::int64_t> samples{};

  MaskedIndex::Options index() const; ///< of these, what counts for it
};

/// Arrays of sequence_length each.
struct BertSample {
  std::vector<std::int64_t> text;   ///< [CLS] A [SEP] B [SEP], some masked
  std::vector<std::int64_t> types;  ///< 0 for A, 1 for B
  std::vector<std::int64_t> labels; ///< the tokens that were masked, else -1
  std::vector<std::int64_t> padding_mask; ///< 1 where there is text
  std::vector<std::int64_t> loss_mask;    ///< 1 where there is a label
  bool is_random = false;                 ///< A and B were swapped
  bool truncated = false;

  std::vector<std::int64_t> sentences{}; ///< memory that read() uses again
  MaskedTokens masked{};                 ///< likewise
};

/// BERT's masked words and sentence pairs over files that were preprocessed
/// with --split-sentences; sample for sample Megatron's
/// BERTMaskedWordPieceDataset. A sample depends on (seed, index) alone, and any
/// number of threads may read, each into a sample of its own.
class BertDataset {
 public:
  using Sample = BertSample;

  /// `documents` are those of one split: SplitShares::elements().
  BertDataset(
      std::shared_ptr<const IndexedDataset> sentences,
      ElementRange documents,
      MaskedVocabulary vocabulary,
      const BertOptions& options);

  /// With an index that is there already.
  BertDataset(
      std::shared_ptr<const IndexedDataset> sentences,
      MaskedIndex index,
      MaskedVocabulary vocabulary,
      const BertOptions& options);

  std::size_t size() const noexcept { return index_.size(); }
  const MaskedIndex& index() const noexcept { return index_; }

  /// Allocates nothing once `sample` has been used.
  void read(std::size_t index, Sample& sample) const;

 private:
  std::shared_ptr<const IndexedDataset> sentences_;
  BertOptions options_;
  TokenMasker masker_;
  std::int64_t classify_ = 0;
  std::int64_t separator_ = 0;
  std::int64_t pad_ = 0;
  MaskedIndex index_;
};

} // namespace cairn::data
