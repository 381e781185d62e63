#pragma once

#include <cairn/data/blend.h>
#include <cairn/data/index_cache.h>
#include <cairn/data/split.h>

#include <array>
#include <filesystem>
#include <optional>
#include <string>

namespace cairn::data {

/// The data that a run trains, validates and tests on, the amount of each, and
/// where their order is kept. Common to all kinds of datasets.
struct DataSelection {
  /// Datasets divided by `split` (--data-path); empty when `blend_per_split` is
  /// given.
  std::optional<Blend> blend{};
  /// Shares of training, validation and test. They are part of index file
  /// names, so the default is spelled as Megatron spells it.
  std::string split = "969, 30, 1";
  /// Datasets of each split: --train-data-path, --valid-data-path and
  /// --test-data-path.
  std::array<std::optional<Blend>, 3> blend_per_split{};

  /// Samples to make at least; 0: the split has no dataset.
  SampleCounts samples{};
  /// Extra samples, relative to its share, that each dataset of a blend gets
  /// (--mid-level-dataset-surplus).
  double surplus = 0.005;
  BlendRounding blend_rounding = native_blend_rounding();

  /// Folder for index files (--data-cache-path). Empty: default_index_folder()
  /// of each dataset, and blends are not stored.
  std::optional<std::filesystem::path> cache_path{};
  /// Naming scheme and folders of index files. With Megatron-DeepSpeed's,
  /// splits and blends are counted as in Megatron-DeepSpeed; GPT only.
  IndexNaming index_naming = IndexNaming::megatron;
  /// Megatron's description of its tokenizer (JSON), or a whole description.txt
  /// that Megatron wrote. New files then have the names that Megatron looks
  /// for.
  std::string tokenizer_description = "null";
};

} // namespace cairn::data
