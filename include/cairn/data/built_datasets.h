#pragma once

#include <cairn/base/error.h>
#include <cairn/data/data_selection.h>
#include <cairn/data/index_array.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cairn::data {

/// Several datasets read as one, in the order of a BlendIndex; or a single
/// dataset unchanged.
template <typename Dataset>
class BlendedDataset {
 public:
  using Sample = typename Dataset::Sample;

  struct Place {
    std::size_t dataset = 0;
    std::size_t sample = 0;
  };

  explicit BlendedDataset(Dataset dataset) {
    datasets_.push_back(std::move(dataset));
  }

  /// Takes, for each sample, its dataset (int16) and its index in that (int64).
  BlendedDataset(
      std::vector<Dataset> datasets,
      IndexArray dataset_index,
      IndexArray sample_index)
      : datasets_(std::move(datasets)),
        blended_(true),
        dataset_index_(std::move(dataset_index)),
        sample_index_(std::move(sample_index)) {}

  std::size_t size() const noexcept {
    return blended_ ? dataset_index_.size() : datasets_.front().size();
  }
  const std::vector<Dataset>& datasets() const noexcept { return datasets_; }
  bool blended() const noexcept { return blended_; }
  const IndexArray& dataset_index() const noexcept { return dataset_index_; }
  const IndexArray& sample_index() const noexcept { return sample_index_; }

  Place locate(std::size_t index) const {
    if (!blended_) {
      return {0, index};
    }
    if (index < size()) {
      const auto dataset = static_cast<std::uint64_t>(dataset_index_[index]);
      const auto sample = static_cast<std::uint64_t>(sample_index_[index]);
      if (dataset < datasets_.size() && sample < datasets_[dataset].size()) {
        return {dataset, sample};
      }
    }
    throw DataError(
        {.what = "a blend leads to no sample of its datasets",
         .values = "sample " + std::to_string(index) + " of " +
             std::to_string(size()),
         .remedy = "remove the index files: they will be built again"});
  }

  /// Reads a sample into `target`, of a type that the datasets read into.
  template <typename Target>
  void read(std::size_t index, Target&& target) const {
    const Place place = locate(index);
    datasets_[place.dataset].read(place.sample, std::forward<Target>(target));
  }

 private:
  std::vector<Dataset> datasets_;
  bool blended_ = false;
  IndexArray dataset_index_;
  IndexArray sample_index_;
};

/// The place where an index was found: in a file, or built now, and then kept
/// in a file or not.
enum class IndexOrigin { file, built, built_in_memory };

/// A dataset of one split: its index and the time that it took.
struct DatasetPart {
  std::string prefix;
  Split split = Split::train;
  ElementRange documents{};
  std::int64_t tokens = 0;              ///< in one epoch
  std::optional<std::int64_t> epochs{}; ///< empty if the files do not say
  std::int64_t samples = 0;
  std::size_t bytes = 0; ///< size of its index
  double seconds = 0.0;
  IndexOrigin origin = IndexOrigin::built_in_memory;
  std::filesystem::path file{}; ///< its index, without the last part
};

/// Training, validation and test data.
template <typename Dataset>
struct BuiltDatasets {
  std::array<std::optional<BlendedDataset<Dataset>>, 3> splits{};
  std::vector<DatasetPart> parts{};
  double blend_seconds = 0.0;
  bool blends_kept = true; ///< false: a blend file could not be stored

  const std::optional<BlendedDataset<Dataset>>& operator[](Split split) const {
    return splits[index_of(split)];
  }

  /// Checksum of all sample orders, for require_agreement(); reads them whole.
  std::uint64_t checksum() const {
    std::uint64_t sum = 0;
    const auto add = [&](std::uint64_t part) {
      sum = sum * 0x9e3779b97f4a7c15 + part;
    };
    for (const auto& split : splits) {
      add(split ? split->size() : 0);
      if (!split) {
        continue;
      }
      for (const Dataset& dataset : split->datasets()) {
        add(dataset.index().checksum());
      }
      add(split->dataset_index().checksum());
      add(split->sample_index().checksum());
    }
    return sum;
  }
};

} // namespace cairn::data
