#include <cairn/data/gpt_datasets.h>

#include "data/samples/datasets_builder.h"
#include "data/samples/index_description.h"

#include <cairn/base/error.h>

#include <utility>

namespace cairn::data {
namespace {

class GptKind {
 public:
  using Dataset = GptDataset;

  explicit GptKind(const GptDataOptions& options)
      : options_(options),
        tokenizer_(
            parse_tokenizer_description(options.data.tokenizer_description)) {
    const bool usual =
        options.extra_token && options.drop_last_partial_validation_sample;
    if (as_deepspeed() && !usual) {
      throw ConfigError(
          {.what = "Megatron-DeepSpeed has no samples without an extra token, "
                   "and no padded ones",
           .remedy = "use Megatron's names for index files"});
    }
  }

  DescribedDataset<GptDataset> build(
      const PartRequest& part,
      DatasetPart& report) {
    const GptIndexRequest request = request_of(part);
    const LengthReader lengths = lengths_of(*part.data);
    const auto plan =
        GptIndexPlan::make(request, count_tokens(request.documents, lengths));
    Description description = describe_gpt_index(
        part.prefix,
        part.split,
        part.shares,
        request,
        tokenizer_);
    const IndexCache::Key key = key_of(part, request, plan, description);
    IndexCache::Result found = part.cache(key).get(
        key,
        [&](const IndexCache::Arrays& arrays) {
          return misfit(
              {arrays[0], arrays[1], arrays[2]},
              request,
              plan,
              *part.data);
        },
        [&]() -> IndexCache::Arrays {
          GptIndex index = build_gpt_index(request, plan, lengths);
          return {index.documents, index.samples, index.shuffle};
        });
    report.documents = request.documents;
    report.tokens = plan.tokens_per_epoch;
    report.epochs = plan.epochs;
    report.samples = plan.samples;
    report.bytes = plan.bytes(request);
    report.origin = found.origin;
    report.file = found.file;
    return {
        GptDataset(
            part.data,
            {found.arrays[0], found.arrays[1], found.arrays[2]},
            request,
            options_.sample,
            found.file.empty()
                ? "the index of " + place_of(part.prefix, part.split)
                : found.file.string()),
        std::move(description)};
  }

 private:
  bool as_deepspeed() const {
    return options_.data.index_naming == IndexNaming::megatron_deepspeed;
  }

  GptIndexRequest request_of(const PartRequest& part) const {
    const std::size_t count = part.data->sequence_count();
    if (as_deepspeed() && !part.samples) {
      throw ConfigError(
          {.what = "Megatron-DeepSpeed names index files after the number of "
                   "samples, and none is given",
           .values = fmt::format("for {}", name_of(part.split)),
           .remedy = "give --train-samples or --train-iters"});
    }
    return {
        .documents =
            (as_deepspeed() ? part.shares.deepspeed_elements(part.split, count)
                            : part.shares.elements(part.split, count))
                .value(),
        .samples = part.samples,
        .sequence_length = options_.sequence_length,
        .seed = options_.seed,
        .extra_token = options_.extra_token,
        .drop_last = part.split != Split::valid ||
            options_.drop_last_partial_validation_sample,
        .wide_samples = as_deepspeed()};
  }

  IndexCache::Key key_of(
      const PartRequest& part,
      const GptIndexRequest& request,
      const GptIndexPlan& plan,
      const Description& description) const {
    if (as_deepspeed()) {
      return {
          .class_name = "GPTDataset",
          .split = part.split,
          .description = describe_gpt_index_for_deepspeed(
              part.prefix,
              part.split,
              options_.data.split,
              request,
              plan),
          .arrays = {"doc_idx", "sample_idx", "shuffle_idx"},
          .naming = IndexNaming::megatron_deepspeed};
    }
    return {
        .class_name = "GPTDataset",
        .split = part.split,
        .description = text_of(description),
        .arrays = {"document_index", "sample_index", "shuffle_index"}};
  }

  const GptDataOptions& options_;
  Description tokenizer_;
};

} // namespace

GptDatasets build_gpt_datasets(
    const GptDataOptions& options,
    const Logger& logger) {
  return DatasetsBuilder(options.data, GptKind(options), logger).build();
}

} // namespace cairn::data
