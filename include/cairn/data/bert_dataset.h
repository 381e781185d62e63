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

} // namespace cairn::data
