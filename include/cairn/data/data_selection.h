#pragma once

#include <cairn/data/blend.h>
#include <cairn/data/blend_index.h>
#include <cairn/data/index_cache.h>
#include <cairn/data/split.h>

#include <array>
#include <filesystem>
#include <optional>
#include <string>

namespace cairn::data {

/// Which data a run trains, validates and tests on, how much of each, and where
/// the order of it is kept: the same for every kind of dataset.
struct DataSelection {
  /// --data-path, divided by `split`; or, when there is none, the next.
  std::optional<Blend> blend{};
  /// Part of the names of index files, so written as Megatron has it.
  std::string split = "969, 30, 1";
  /// --train-data-path, --valid-data-path, --test-data-path
  std::array<std::optional<Blend>, 3> blend_per_split{};

  /// At least so many are made; with 0 there is no dataset for the split.
  SampleCounts samples{};
  /// Datasets of a blend are made that much larger than their share
  /// (--mid-level-dataset-surplus).
  double surplus = 0.005;
  BlendRounding blend_rounding = native_blend_rounding();

  /// Where index files are kept (--data-cache-path); none: the peer's place for
  /// each dataset, and blends are not kept.
  std::optional<std::filesystem::path> cache_path{};
  /// Whose names and places index files have. With Megatron-DeepSpeed's, splits
  /// and blends are counted out as there; GPT only.
  IndexNaming index_naming = IndexNaming::megatron;
  /// Megatron's account of its tokenizer (JSON), or a whole description.txt of
  /// its making: new files then have the names that Megatron looks for.
  std::string tokenizer_description = "null";
};

} // namespace cairn::data
