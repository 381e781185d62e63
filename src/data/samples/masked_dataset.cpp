#include <cairn/data/masked_dataset.h>

#include <utility>

namespace cairn::data {
namespace {

MaskedIndex index_from(
    MaskedSource source,
    const IndexedDataset& sentences,
    const MaskedIndex::Options& options) {
  if (auto* const index = std::get_if<MaskedIndex>(&source)) {
    return std::move(*index);
  }
  return MaskedIndex(sentences, std::get<ElementRange>(source), options);
}

} // namespace

MaskedDataset::MaskedDataset(
    std::shared_ptr<const IndexedDataset> sentences,
    MaskedSource source,
    const MaskedIndex::Options& index_options,
    TokenMasker masker)
    : sentences_(std::move(sentences)),
      masker_(std::move(masker)),
      index_(index_from(std::move(source), *sentences_, index_options)) {}

} // namespace cairn::data
