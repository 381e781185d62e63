#pragma once

#include <cairn/base/log.h>
#include <cairn/data/bert_dataset.h>
#include <cairn/data/built_datasets.h>
#include <cairn/data/data_selection.h>
#include <cairn/data/masked_index.h>
#include <cairn/data/masked_vocabulary.h>
#include <cairn/data/t5_dataset.h>

#include <cstddef>
#include <utility>

namespace cairn::data {

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
