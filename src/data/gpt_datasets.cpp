#include <cairn/data/gpt_datasets.h>

#include "data/index_description.h"

#include <cairn/base/error.h>

#include <fmt/format.h>

#include <chrono>
#include <map>
#include <memory>
#include <numeric>
#include <utility>
#include <variant>

namespace cairn::data {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

const std::string gpt_class = "GPTDataset";
constexpr std::size_t most_datasets = 32767; // they are counted with int16

/// A GPT dataset and what its index files are named after.
struct Described {
  GptDataset dataset;
  Description description;
};

class Builder {
 public:
  Builder(const GptDataOptions& options, const Logger& logger)
      : options_(options),
        logger_(logger),
        tokenizer_(parse_tokenizer_description(options.tokenizer_description)) {
    if (tokenizer_.is_object() && tokenizer_.contains("tokenizer")) {
      tokenizer_ = Description(tokenizer_["tokenizer"]);
    }
  }

  GptDatasets build() {
    const bool per_split = options_.blend_per_split[0] ||
        options_.blend_per_split[1] || options_.blend_per_split[2];
    if (options_.blend.has_value() == per_split) {
      throw ConfigError(
          {.what = per_split
               ? "data is given for all splits and for single ones"
               : "no data is given",
           .remedy = "use --data-path with --split, or --train-data-path, "
                     "--valid-data-path and --test-data-path"});
    }
    for (const Split split : all_splits) {
      const std::size_t i = index_of(split);
      const auto& blend =
          per_split ? options_.blend_per_split[i] : options_.blend;
      const SplitShares shares = per_split ? SplitShares::only(split)
                                           : SplitShares::parse(options_.split);
      if (blend && shares.range(split) && options_.samples[i] != 0) {
        result_.splits[i] = build_split(*blend, per_split, split, shares);
      }
    }
    return std::move(result_);
  }

 private:
  BlendedGptDataset build_split(
      const Blend& blend,
      bool per_split,
      Split split,
      const SplitShares& shares) {
    const SampleCount wanted = options_.samples[index_of(split)];
    if (blend.prefixes.size() == 1 && (per_split || !blend.weights)) {
      return BlendedGptDataset(
          build_dataset(blend.prefixes[0], split, shares, wanted).dataset);
    }
    if (blend.prefixes.size() >= most_datasets) {
      throw ConfigError(
          {.what = "too many datasets in a blend",
           .values = fmt::format("{}", blend.prefixes.size())});
    }
    if (blend.weights && !wanted) {
      throw ConfigError(
          {.what = "a blend with weights needs the number of samples",
           .values = fmt::format("for {}", name_of(split)),
           .remedy = "give --train-samples or --train-iters, or leave out the "
                     "weights"});
    }
    std::vector<double> weights;
    if (blend.weights) {
      weights = normalized(*blend.weights);
    }
    std::vector<Described> parts;
    std::int64_t size = 0;
    for (std::size_t i = 0; i < blend.prefixes.size(); ++i) {
      SampleCount share;
      if (blend.weights) {
        size += share_of_samples(*wanted, weights[i], 0.0);
        share = share_of_samples(*wanted, weights[i], options_.surplus);
      }
      parts.push_back(build_dataset(blend.prefixes[i], split, shares, share));
    }
    if (blend.weights) {
      return mix(blend, std::move(parts), split, normalized(weights), size);
    }
    return mix_by_size(blend, std::move(parts), split, wanted);
  }

  /// Without weights datasets count by their samples; and without a number of
  /// samples each of them is taken once.
  BlendedGptDataset mix_by_size(
      const Blend& blend,
      std::vector<Described> parts,
      Split split,
      SampleCount wanted) {
    std::vector<std::int64_t> sizes;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      sizes.push_back(static_cast<std::int64_t>(parts[i].dataset.size()));
      if (sizes.back() == 0) {
        throw DataError(
            {.what = "a dataset of a blend gives no sample",
             .where = place(blend.prefixes[i], split),
             .remedy = "leave it out, or give it a larger share in --split"});
      }
    }
    if (!wanted) {
      return mix(blend, std::move(parts), split, sizes, std::nullopt);
    }
    const auto all =
        std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
    const std::vector<double> weights(sizes.begin(), sizes.end());
    return mix(
        blend,
        std::move(parts),
        split,
        normalized(weights),
        std::min(*wanted, all));
  }

  BlendedGptDataset mix(
      const Blend& blend,
      std::vector<Described> parts,
      Split split,
      const std::variant<std::vector<double>, std::vector<std::int64_t>>&
          weights,
      SampleCount size) {
    const auto begin = Clock::now();
    std::vector<GptDataset> datasets;
    std::vector<Description> descriptions;
    for (Described& part : parts) {
      datasets.push_back(std::move(part.dataset));
      descriptions.push_back(std::move(part.description));
    }
    const auto build = [&]() -> IndexCache::Arrays {
      const BlendRounding rounding = options_.blend_rounding;
      BlendIndex index = size
          ? build_blend_index(
                std::get<0>(weights),
                static_cast<std::size_t>(*size),
                rounding)
          : build_exhaustive_blend_index(std::get<1>(weights), rounding);
      return {
          IndexArray::of(std::move(index.datasets)),
          IndexArray::of(std::move(index.samples))};
    };
    std::int64_t expected = size.value_or(0);
    if (!size) {
      const auto& sizes = std::get<1>(weights);
      expected = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
    }
    const auto misfit = [&](const IndexCache::Arrays& arrays) -> std::string {
      const std::vector<std::size_t> shape{static_cast<std::size_t>(expected)};
      const bool fits = arrays[0].type() == IndexType::int16 &&
          arrays[1].type() == IndexType::int64 && arrays[0].shape() == shape &&
          arrays[1].shape() == shape;
      return fits ? "" : "they are for another number of samples";
    };
    IndexCache::Arrays arrays;
    if (options_.cache_path) {
      Description description =
          describe_blend(descriptions, split, weights, size);
      if (options_.blend_rounding != native_blend_rounding()) {
        description["rounding"] = "not this machine's";
      }
      const IndexCache::Key key{
          .class_name = "BlendedDataset",
          .split = split,
          .description = text_of(description),
          .arrays = {"dataset_index", "dataset_sample_index"}};
      auto found = cache(*options_.cache_path).get(key, misfit, build);
      result_.blends_kept = result_.blends_kept &&
          found.origin != IndexCache::Origin::built_in_memory;
      arrays = std::move(found.arrays);
    } else {
      arrays = build();
    }
    check_sizes(blend, datasets, split, arrays);
    result_.blend_seconds += seconds_since(begin);
    return BlendedGptDataset(std::move(datasets), arrays[0], arrays[1]);
  }

  void check_sizes(
      const Blend& blend,
      const std::vector<GptDataset>& datasets,
      Split split,
      const IndexCache::Arrays& arrays) const {
    std::vector<std::size_t> counts(datasets.size(), 0);
    for (const std::int16_t i : arrays[0].values<std::int16_t>()) {
      if (i >= 0 && static_cast<std::size_t>(i) < counts.size()) {
        ++counts[static_cast<std::size_t>(i)];
      }
    }
    for (std::size_t i = 0; i < datasets.size(); ++i) {
      if (counts[i] > datasets[i].size()) {
        throw DataError(
            {.what = "the blend asks a dataset for more samples than it has",
             .where = place(blend.prefixes[i], split),
             .values = fmt::format("{} of {}", counts[i], datasets[i].size()),
             .remedy = fmt::format(
                 "raise --mid-level-dataset-surplus from {} to {} or more",
                 options_.surplus,
                 2 * options_.surplus)});
      }
    }
  }

  Described build_dataset(
      const std::string& prefix,
      Split split,
      const SplitShares& shares,
      SampleCount wanted) {
    try {
      return build_part(prefix, split, shares, wanted);
    } catch (const DataError& error) {
      Problem problem = error.problem();
      if (problem.where.empty()) {
        problem.where = place(prefix, split);
      }
      throw DataError(std::move(problem));
    }
  }

  Described build_part(
      const std::string& prefix,
      Split split,
      const SplitShares& shares,
      SampleCount wanted) {
    const auto begin = Clock::now();
    const auto documents = open(prefix);
    const GptIndexRequest request{
        .documents =
            shares.elements(split, documents->sequence_count()).value(),
        .samples = wanted,
        .sequence_length = options_.sequence_length,
        .seed = options_.seed,
        .extra_token = options_.extra_token,
        .drop_last = split != Split::valid ||
            options_.drop_last_partial_validation_sample};
    const LengthReader lengths = lengths_of(*documents);
    const auto plan =
        GptIndexPlan::make(request, count_tokens(request.documents, lengths));
    Description description =
        describe_gpt_index(prefix, split, shares, request, tokenizer_);
    const IndexCache::Key key{
        .class_name = gpt_class,
        .split = split,
        .description = text_of(description),
        .arrays = {"document_index", "sample_index", "shuffle_index"}};
    const std::filesystem::path folder = options_.cache_path
        ? *options_.cache_path
        : default_index_folder(prefix, gpt_class);
    IndexCache::Result found = cache(folder).get(
        key,
        [&](const IndexCache::Arrays& arrays) {
          return misfit(
              {arrays[0], arrays[1], arrays[2]},
              request,
              plan,
              *documents);
        },
        [&]() -> IndexCache::Arrays {
          GptIndex index = build_gpt_index(request, plan, lengths);
          return {index.documents, index.samples, index.shuffle};
        });
    result_.parts.push_back(
        {.prefix = prefix,
         .split = split,
         .documents = request.documents,
         .plan = plan,
         .bytes = plan.bytes(request),
         .seconds = seconds_since(begin),
         .origin = found.origin,
         .file = found.file});
    return {
        GptDataset(
            documents,
            {found.arrays[0], found.arrays[1], found.arrays[2]},
            request,
            options_.sample,
            found.file.empty() ? "the index of " + place(prefix, split)
                               : found.file.string()),
        std::move(description)};
  }

  /// Mapped once, however many splits use it.
  std::shared_ptr<const IndexedDataset> open(const std::string& prefix) {
    auto& opened = opened_[prefix];
    if (!opened) {
      opened = std::make_shared<const IndexedDataset>(prefix);
    }
    return opened;
  }

  IndexCache& cache(const std::filesystem::path& folder) {
    return caches_.try_emplace(folder, folder, logger_).first->second;
  }

  static std::string place(const std::string& prefix, Split split) {
    return fmt::format("{} ({})", prefix, name_of(split));
  }

  const GptDataOptions& options_;
  const Logger& logger_;
  Description tokenizer_;
  std::map<std::string, std::shared_ptr<const IndexedDataset>> opened_;
  std::map<std::filesystem::path, IndexCache> caches_;
  GptDatasets result_;
};

} // namespace

std::uint64_t GptDatasets::checksum() const {
  std::uint64_t sum = 0;
  const auto add = [&](std::uint64_t part) {
    sum = sum * 0x9e3779b97f4a7c15 + part;
  };
  for (const auto& split : splits) {
    add(split ? split->size() : 0);
    if (!split) {
      continue;
    }
    for (const GptDataset& dataset : split->datasets()) {
      add(dataset.index().checksum());
    }
    add(split->dataset_index().checksum());
    add(split->sample_index().checksum());
  }
  return sum;
}

GptDatasets build_gpt_datasets(
    const GptDataOptions& options,
    const Logger& logger) {
  return Builder(options, logger).build();
}

} // namespace cairn::data
