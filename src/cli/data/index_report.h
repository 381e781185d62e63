#pragma once

#include <cairn/data/built_datasets.h>
#include <cairn/data/data_selection.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cairn::cli {

/// The result of `cairn data index`, for any kind of dataset.
struct IndexReport {
  struct SplitSize {
    data::Split split = data::Split::train;
    std::size_t samples = 0;
    std::size_t blended_from = 0; ///< number of datasets; 0: a single one
  };

  std::vector<data::DatasetPart> parts;
  std::vector<SplitSize> splits;
  double blend_seconds = 0.0;
  bool blends_kept = true;
  std::uint64_t checksum = 0;

  template <typename Dataset>
  static IndexReport of(const data::BuiltDatasets<Dataset>& built) {
    IndexReport report{
        .parts = built.parts,
        .splits = {},
        .blend_seconds = built.blend_seconds,
        .blends_kept = built.blends_kept,
        .checksum = built.checksum()};
    for (const data::Split split : data::all_splits) {
      if (const auto& dataset = built[split]) {
        report.splits.push_back(
            {split,
             dataset->size(),
             dataset->blended() ? dataset->datasets().size() : 0});
      }
    }
    return report;
  }

  void print() const;
  /// Throws DataError if all data together gives no sample.
  void require_a_sample(std::int64_t sequence_length) const;
  /// Throws DataError if a file could not be kept.
  void require_files() const;

 private:
  void print_table() const;
  void print_splits() const;
};

} // namespace cairn::cli
