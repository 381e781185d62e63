#pragma once

#include "data/samples/blend_arrays.h"
#include "data/samples/index_cache.h"
#include "data/samples/index_description.h"

#include <cairn/base/error.h>
#include <cairn/base/log.h>
#include <cairn/data/built_datasets.h>
#include <cairn/data/data_selection.h>
#include <cairn/data/indexed_dataset.h>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace cairn::data {

/// A dataset and the description that names its index files.
template <typename Dataset>
struct DescribedDataset {
  Dataset dataset;
  Description description;
};

/// A dataset of one split that is to be built.
struct PartRequest {
  const std::string& prefix;
  Split split;
  const SplitShares& shares;
  SampleCount samples;
  std::shared_ptr<const IndexedDataset> data;
  /// The cache for its index files, which have the key `key`.
  std::function<IndexCache&(const IndexCache::Key& key)> cache;
};

inline std::string place_of(const std::string& prefix, Split split) {
  return fmt::format("{} ({})", prefix, name_of(split));
}

/// Builds training, validation and test data of any kind, mixed as Megatron's
/// BlendedMegatronDatasetBuilder mixes them. A `Kind` makes a single dataset:
///
///   using Dataset = …;
///   DescribedDataset<Dataset> build(const PartRequest&, DatasetPart& report);
template <typename Kind>
class DatasetsBuilder {
 public:
  using Dataset = typename Kind::Dataset;

  DatasetsBuilder(const DataSelection& data, Kind kind, const Logger& logger)
      : data_(data), kind_(std::move(kind)), logger_(logger) {}

  BuiltDatasets<Dataset> build() {
    const bool per_split = std::ranges::any_of(
        data_.blend_per_split,
        [](const auto& blend) { return blend.has_value(); });
    if (data_.blend.has_value() == per_split) {
      throw ConfigError(
          {.what = per_split
               ? "data is given for all splits and for single ones"
               : "no data is given",
           .remedy = "use --data-path with --split, or --train-data-path, "
                     "--valid-data-path and --test-data-path"});
    }
    for (const Split split : all_splits) {
      const std::size_t i = index_of(split);
      const auto& blend = per_split ? data_.blend_per_split[i] : data_.blend;
      const SplitShares shares = per_split ? SplitShares::only(split)
                                           : SplitShares::parse(data_.split);
      if (blend && shares.range(split) && data_.samples[i] != 0) {
        result_.splits[i] = build_split(*blend, per_split, split, shares);
      }
    }
    return std::move(result_);
  }

 private:
  using Described = DescribedDataset<Dataset>;

  bool as_deepspeed() const {
    return data_.index_naming == IndexNaming::megatron_deepspeed;
  }

  BlendedDataset<Dataset> build_split(
      const Blend& blend,
      bool per_split,
      Split split,
      const SplitShares& shares) {
    const SampleCount wanted = data_.samples[index_of(split)];
    const bool single = blend.prefixes.size() == 1 &&
        (!blend.weights || (per_split && !as_deepspeed()));
    if (single) {
      return BlendedDataset<Dataset>(
          build_dataset(blend.prefixes[0], split, shares, wanted).dataset);
    }
    check_blend(blend, split, wanted);
    std::vector<double> weights;
    if (blend.weights) {
      weights = normalized(*blend.weights);
    }
    std::vector<Described> parts;
    std::int64_t size = 0;
    for (std::size_t i = 0; i < blend.prefixes.size(); ++i) {
      SampleCount share;
      if (blend.weights && as_deepspeed()) {
        share = deepspeed_share_of_samples(*wanted, weights[i], data_.surplus);
        size += *share;
      } else if (blend.weights) {
        share = share_of_samples(*wanted, weights[i], data_.surplus);
        size += share_of_samples(*wanted, weights[i], 0.0);
      }
      parts.push_back(build_dataset(blend.prefixes[i], split, shares, share));
    }
    const BlendPlan plan = blend.weights
        ? BlendPlan{normalized(weights), size}
        : plan_by_size(blend, parts, split, wanted);
    return mix(blend, std::move(parts), split, plan);
  }

  void check_blend(const Blend& blend, Split split, SampleCount wanted) const {
    constexpr std::size_t most_datasets = 32767; // their indices are int16
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
    if (!blend.weights && as_deepspeed()) {
      throw ConfigError(
          {.what = "Megatron-DeepSpeed has no blends without weights",
           .remedy = "give every dataset a weight, or use Megatron's names for "
                     "index files"});
    }
  }

  /// The plan without weights: datasets are weighted by their samples; without
  /// a number of samples, every sample is taken once.
  static BlendPlan plan_by_size(
      const Blend& blend,
      const std::vector<Described>& parts,
      Split split,
      SampleCount wanted) {
    std::vector<std::int64_t> sizes;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      sizes.push_back(static_cast<std::int64_t>(parts[i].dataset.size()));
      if (sizes.back() == 0) {
        throw DataError(
            {.what = "a dataset of a blend gives no sample",
             .where = place_of(blend.prefixes[i], split),
             .remedy = "leave it out, or give it a larger share in --split"});
      }
    }
    if (!wanted) {
      return {std::move(sizes), std::nullopt};
    }
    const auto all =
        std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
    const std::vector<double> weights(sizes.begin(), sizes.end());
    return {normalized(weights), std::min(*wanted, all)};
  }

  BlendedDataset<Dataset> mix(
      const Blend& blend,
      std::vector<Described> parts,
      Split split,
      const BlendPlan& plan) {
    const auto begin = Clock::now();
    std::vector<Dataset> datasets;
    std::vector<Description> descriptions;
    for (Described& part : parts) {
      datasets.push_back(std::move(part.dataset));
      descriptions.push_back(std::move(part.description));
    }
    const bool keep = data_.cache_path && !as_deepspeed();
    BlendArrays arrays = open_blend_arrays(
        plan,
        split,
        data_.blend_rounding,
        descriptions,
        keep ? &cache(*data_.cache_path) : nullptr);
    result_.blends_kept = result_.blends_kept && arrays.kept;
    check_sizes(blend, datasets, split, arrays);
    result_.blend_seconds += seconds_since(begin);
    return BlendedDataset<Dataset>(
        std::move(datasets),
        std::move(arrays.datasets),
        std::move(arrays.samples));
  }

  void check_sizes(
      const Blend& blend,
      const std::vector<Dataset>& datasets,
      Split split,
      const BlendArrays& arrays) const {
    std::vector<std::size_t> counts(datasets.size(), 0);
    for (const std::int16_t i : arrays.datasets.values<std::int16_t>()) {
      if (i >= 0 && static_cast<std::size_t>(i) < counts.size()) {
        ++counts[static_cast<std::size_t>(i)];
      }
    }
    for (std::size_t i = 0; i < datasets.size(); ++i) {
      if (counts[i] > datasets[i].size()) {
        throw DataError(
            {.what = "the blend asks a dataset for more samples than it has",
             .where = place_of(blend.prefixes[i], split),
             .values = fmt::format("{} of {}", counts[i], datasets[i].size()),
             .remedy = fmt::format(
                 "raise --mid-level-dataset-surplus from {} to {} or more",
                 data_.surplus,
                 2 * data_.surplus)});
      }
    }
  }

  Described build_dataset(
      const std::string& prefix,
      Split split,
      const SplitShares& shares,
      SampleCount wanted) {
    const auto begin = Clock::now();
    const PartRequest request{
        .prefix = prefix,
        .split = split,
        .shares = shares,
        .samples = wanted,
        .data = open(prefix),
        .cache = [&](const IndexCache::Key& key) -> IndexCache& {
          return cache_for(prefix, key);
        }};
    try {
      DatasetPart report{.prefix = prefix, .split = split};
      Described built = kind_.build(request, report);
      report.seconds = seconds_since(begin);
      result_.parts.push_back(std::move(report));
      return built;
    } catch (const DataError& error) {
      Problem problem = error.problem();
      if (problem.where.empty()) {
        problem.where = place_of(prefix, split);
      }
      throw DataError(std::move(problem));
    }
  }

  /// Opens a dataset once, however many splits use it.
  std::shared_ptr<const IndexedDataset> open(const std::string& prefix) {
    auto& opened = opened_[prefix];
    if (!opened) {
      opened = std::make_shared<const IndexedDataset>(prefix);
    }
    return opened;
  }

  /// The cache for a dataset. Megatron-DeepSpeed looks beside the data first,
  /// and only then in the given folder.
  IndexCache& cache_for(const std::string& prefix, const IndexCache::Key& key) {
    const auto place =
        default_index_folder(prefix, key.class_name, data_.index_naming);
    if (!data_.cache_path || (as_deepspeed() && cache(place).has(key))) {
      return cache(place);
    }
    return cache(*data_.cache_path);
  }

  IndexCache& cache(const std::filesystem::path& folder) {
    return caches_.try_emplace(folder, folder, logger_).first->second;
  }

  using Clock = std::chrono::steady_clock;
  static double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

  const DataSelection& data_;
  Kind kind_;
  const Logger& logger_;
  std::map<std::string, std::shared_ptr<const IndexedDataset>> opened_;
  std::map<std::filesystem::path, IndexCache> caches_;
  BuiltDatasets<Dataset> result_;
};

} // namespace cairn::data
