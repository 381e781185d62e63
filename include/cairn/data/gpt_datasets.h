#pragma once

#include <cairn/base/log.h>
#include <cairn/data/blend.h>
#include <cairn/data/blend_index.h>
#include <cairn/data/blended_dataset.h>
#include <cairn/data/gpt_dataset.h>
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

struct GptDataOptions {
  /// --data-path, divided by `split`; or, when there is none, the next.
  std::optional<Blend> blend{};
  std::string split = "969,30,1";
  /// --train-data-path, --valid-data-path, --test-data-path
  std::array<std::optional<Blend>, 3> blend_per_split{};

  /// At least so many are made; with 0 there is no dataset for the split.
  SampleCounts samples{};
  std::int64_t sequence_length = 1024;
  std::uint32_t seed = 1234;
  GptSampleOptions sample{};
  bool extra_token = true;
  bool drop_last_partial_validation_sample = true;
  /// Datasets of a blend are made that much larger than their share
  /// (--mid-level-dataset-surplus).
  double surplus = 0.005;
  BlendRounding blend_rounding = native_blend_rounding();

  /// Where index files are kept (--data-cache-path); none: Megatron's place
  /// for each dataset, and blends are not kept.
  std::optional<std::filesystem::path> cache_path{};
  /// Megatron's account of its tokenizer (JSON), or a whole description.txt of
  /// its making: new files then have the names that Megatron looks for.
  std::string tokenizer_description = "null";
};

/// One dataset of one split: what was made, and how long it took.
struct GptPart {
  std::string prefix;
  Split split = Split::train;
  ElementRange documents{};
  GptIndexPlan plan{};
  std::size_t bytes = 0; ///< of its index
  double seconds = 0.0;
  IndexCache::Origin origin = IndexCache::Origin::built_in_memory;
  std::filesystem::path file{}; ///< of its index, without the last part
};

using BlendedGptDataset = BlendedDataset<GptDataset>;

struct GptDatasets {
  std::array<std::optional<BlendedGptDataset>, 3> splits{};
  std::vector<GptPart> parts{};
  double blend_seconds = 0.0;
  bool blends_kept = true; ///< no file of a blend that was to be kept failed

  const std::optional<BlendedGptDataset>& operator[](Split split) const {
    return splits[index_of(split)];
  }
  /// Of all orders, reading them whole; see require_agreement().
  std::uint64_t checksum() const;
};

/// Training, validation and test data, each sample as Megatron's
/// BlendedMegatronDatasetBuilder would give it.
GptDatasets build_gpt_datasets(
    const GptDataOptions& options,
    const Logger& logger);

} // namespace cairn::data
