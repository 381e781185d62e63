#include <cairn/data/masked_datasets.h>

#include "data/samples/datasets_builder.h"
#include "data/samples/masked_index_files.h"

#include <cairn/base/error.h>
#include <cairn/data/gpt_datasets.h>

#include <functional>
#include <memory>
#include <string>

namespace cairn::data {
namespace {

std::int64_t count_tokens_of(
    const IndexedDataset& sentences,
    ElementRange documents) {
  const auto starts = sentences.document_indices();
  return count_tokens(
      {starts[static_cast<std::size_t>(documents.begin)],
       starts[static_cast<std::size_t>(documents.end)]},
      lengths_of(sentences));
}

template <typename Made, typename Options>
class MaskedKind {
 public:
  using Dataset = Made;
  using Make = std::function<
      Made(std::shared_ptr<const IndexedDataset>, MaskedIndex, const Options&)>;

  MaskedKind(const DataSelection& data, const Options& options, Make make)
      : tokenizer_(data.tokenizer_description),
        options_(options),
        make_(std::move(make)) {
    if (options.samples) {
      throw ConfigError(
          {.what = "the number of samples of a masked dataset is given twice",
           .remedy = "give it for the splits alone"});
    }
    if (data.index_naming != IndexNaming::megatron) {
      throw ConfigError(
          {.what = "only index files of GPT data can have Megatron-DeepSpeed's "
                   "names",
           .remedy = "use Megatron's for BERT and T5"});
    }
  }

  DescribedDataset<Made> build(const PartRequest& part, DatasetPart& report) {
    Options options = options_;
    options.samples = part.samples;
    MaskedIndexFile found = open_masked_index(
        part.cache({.class_name = class_of(options)}),
        *part.data,
        part.split,
        part.shares,
        options,
        tokenizer_);
    report.documents =
        part.shares.elements(part.split, part.data->document_count()).value();
    report.tokens = count_tokens_of(*part.data, report.documents);
    report.samples = static_cast<std::int64_t>(found.index.size());
    report.bytes = found.index.array().bytes().size();
    report.origin = found.origin;
    report.file = found.file;
    return {
        make_(part.data, std::move(found.index), options),
        Description::parse(found.description)};
  }

 private:
  std::string tokenizer_;
  Options options_;
  Make make_;
};

template <typename Dataset, typename Options>
BuiltDatasets<Dataset> build(
    const DataSelection& data,
    const Options& options,
    const MaskedVocabulary& vocabulary,
    const Logger& logger) {
  const auto make = [&](std::shared_ptr<const IndexedDataset> sentences,
                        MaskedIndex index,
                        const Options& own) {
    return Dataset(std::move(sentences), std::move(index), vocabulary, own);
  };
  return DatasetsBuilder(
             data,
             MaskedKind<Dataset, Options>(data, options, make),
             logger)
      .build();
}

} // namespace

BertDatasets build_masked_datasets(
    const DataSelection& data,
    const BertOptions& options,
    const MaskedVocabulary& vocabulary,
    const Logger& logger) {
  return build<BertDataset>(data, options, vocabulary, logger);
}

T5Datasets build_masked_datasets(
    const DataSelection& data,
    const T5Options& options,
    const MaskedVocabulary& vocabulary,
    const Logger& logger) {
  return build<T5Dataset>(data, options, vocabulary, logger);
}

template <typename Options>
MaskedIndices build_masked_indices(
    const DataSelection& data,
    const Options& options,
    const Logger& logger) {
  const auto make = [](std::shared_ptr<const IndexedDataset>,
                       MaskedIndex index,
                       const Options&) { return MaskedRows(std::move(index)); };
  return DatasetsBuilder(
             data,
             MaskedKind<MaskedRows, Options>(data, options, make),
             logger)
      .build();
}

template MaskedIndices build_masked_indices(
    const DataSelection&,
    const BertOptions&,
    const Logger&);
template MaskedIndices build_masked_indices(
    const DataSelection&,
    const T5Options&,
    const Logger&);

} // namespace cairn::data
