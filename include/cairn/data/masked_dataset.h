#pragma once

#include <cairn/data/indexed_dataset.h>
#include <cairn/data/masked_index.h>
#include <cairn/data/masked_vocabulary.h>
#include <cairn/data/split.h>
#include <cairn/data/token_masker.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

namespace cairn::data {

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
