#pragma once

#include "data/samples/index_cache.h"

#include <cairn/data/data_selection.h>
#include <cairn/data/indexed_dataset.h>
#include <cairn/data/masked_dataset.h>
#include <cairn/data/masked_datasets.h>

#include <filesystem>
#include <string>

namespace cairn::data {

struct MaskedIndexFile {
  MaskedIndex index;
  IndexOrigin origin = IndexOrigin::built_in_memory;
  std::filesystem::path file{}; ///< without "-sample_index.npy"
  std::string description{};    ///< the text that names the file
};

/// Megatron's class name of the dataset with these options.
inline std::string class_of(const BertOptions&) {
  return "BERTMaskedWordPieceDataset";
}
inline std::string class_of(const T5Options&) {
  return "T5MaskedWordPieceDataset";
}

/// Opens the index of a split from its file, which Megatron may have written,
/// or builds and stores it; all processes of a machine share it.
/// `tokenizer_description` is Megatron's description of its tokenizer (JSON),
/// which is part of the names of new files. `Options` is BertOptions or
/// T5Options.
template <typename Options>
MaskedIndexFile open_masked_index(
    IndexCache& cache,
    const IndexedDataset& sentences,
    Split split,
    const SplitShares& shares,
    const Options& options,
    const std::string& tokenizer_description = "null");

} // namespace cairn::data
