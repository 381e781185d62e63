#pragma once

#include <cairn/data/masked_dataset.h>

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

  MaskedScratch scratch{};
};

/// BERT's masked words and sentence pairs over files that were preprocessed
/// with --split-sentences; sample for sample Megatron's
/// BERTMaskedWordPieceDataset. A sample depends on (seed, index) alone, and any
/// number of threads may read, each into a sample of its own.
class BertDataset : public MaskedDataset {
 public:
  using Sample = BertSample;

  BertDataset(
      std::shared_ptr<const IndexedDataset> sentences,
      MaskedSource source,
      MaskedVocabulary vocabulary,
      const BertOptions& options);

  /// Allocates nothing once `sample` has been used.
  void read(std::size_t index, Sample& sample) const;

 private:
  BertOptions options_;
  std::int64_t classify_ = 0;
  std::int64_t separator_ = 0;
  std::int64_t pad_ = 0;
};

} // namespace cairn::data
