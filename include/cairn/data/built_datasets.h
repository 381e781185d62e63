#pragma once

#include <cairn/data/blended_dataset.h>
#include <cairn/data/index_cache.h>
#include <cairn/data/split.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace cairn::data {

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
  IndexCache::Origin origin = IndexCache::Origin::built_in_memory;
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
