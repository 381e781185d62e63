#include "data/samples/masked_index_files.h"

#include "data/samples/index_description.h"

#include <cairn/base/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace cairn::data {
namespace {

/// Keys that this class adds to the common description.
Description own_description(const BertOptions& options) {
  return {{"classification_head", options.classification_head}};
}
Description own_description(const T5Options& options) {
  return {{"sequence_length_decoder", options.decoder_sequence_length}};
}

/// The description that Megatron writes for any masked dataset.
template <typename Options>
Description describe(
    const IndexedDataset& sentences,
    Split split,
    const SplitShares& shares,
    const Options& options,
    const std::string& tokenizer_description) {
  Description description = describe_gpt_index(
      sentences.prefix().string(),
      split,
      shares,
      {.samples = options.samples,
       .sequence_length = options.sequence_length,
       .seed = options.seed},
      parse_tokenizer_description(tokenizer_description));
  const MaskingOptions& masking = options.masking;
  description["class"] = class_of(options);
  description["masking_probability"] = masking.probability;
  description["short_sequence_probability"] =
      options.short_sequence_probability;
  description["masking_max_ngram"] = masking.max_ngram;
  description["masking_do_full_word"] = masking.whole_words;
  description["masking_do_permutation"] = masking.permute;
  description["masking_use_longer_ngrams"] = masking.favor_longer;
  description["masking_use_geometric_distribution"] = masking.geometric;
  description.update(own_description(options));
  return description;
}

ElementRange documents_of(
    const IndexedDataset& sentences,
    Split split,
    const SplitShares& shares) {
  return shares.elements(split, sentences.document_count())
      .value_or(ElementRange{});
}

/// The fault of an array; empty if there is none. Checks some rows, not
/// everything.
std::string misfit(
    const IndexArray& array,
    const IndexedDataset& sentences,
    ElementRange documents,
    const MaskedIndex::Options& options) {
  const MaskedIndex index(array);
  if (index.size() < static_cast<std::size_t>(options.samples.value_or(1))) {
    return fmt::format("they have only {} samples", index.size());
  }
  const auto starts = sentences.document_indices();
  const auto first = static_cast<std::size_t>(
      starts[static_cast<std::size_t>(documents.begin)]);
  const auto end =
      static_cast<std::size_t>(starts[static_cast<std::size_t>(documents.end)]);
  constexpr std::size_t probes = 64;
  for (std::size_t i = 0; i < std::min(probes, index.size()); ++i) {
    const std::size_t sample =
        index.size() <= probes ? i : i * (index.size() - 1) / (probes - 1);
    const MaskedIndex::Row row = index[sample];
    if (row.first < first || row.first >= row.end || row.end > end ||
        row.target_length < 2 || row.target_length > options.max_length) {
      return fmt::format("sample {} is not of these documents", sample);
    }
  }
  return {};
}

} // namespace

template <typename Options>
MaskedIndexFile open_masked_index(
    IndexCache& cache,
    const IndexedDataset& sentences,
    Split split,
    const SplitShares& shares,
    const Options& options,
    const std::string& tokenizer_description) {
  const std::string description = text_of(
      describe(sentences, split, shares, options, tokenizer_description));
  const ElementRange documents = documents_of(sentences, split, shares);
  const MaskedIndex::Options index = options.index();
  IndexCache::Result found = cache.get(
      {.class_name = class_of(options),
       .split = std::nullopt,
       .description = description,
       .arrays = {"sample_index"}},
      [&](const IndexCache::Arrays& arrays) {
        return misfit(arrays[0], sentences, documents, index);
      },
      [&]() -> IndexCache::Arrays {
        return {MaskedIndex(sentences, documents, index).array()};
      });
  return {
      MaskedIndex(std::move(found.arrays[0])),
      found.origin,
      std::move(found.file),
      description};
}

template MaskedIndexFile open_masked_index(
    IndexCache&,
    const IndexedDataset&,
    Split,
    const SplitShares&,
    const BertOptions&,
    const std::string&);
template MaskedIndexFile open_masked_index(
    IndexCache&,
    const IndexedDataset&,
    Split,
    const SplitShares&,
    const T5Options&,
    const std::string&);

} // namespace cairn::data
