#pragma once

#include <cairn/data/indexed_dataset.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace cairn::data {

/// Lengths of a dataset's documents or sequences.
struct LengthSummary {
  std::uint64_t count = 0;
  std::uint64_t least = 0;
  std::uint64_t most = 0;
  double mean = 0;
  /// Histogram: bucket 0 counts the empty ones, bucket b lengths from 2^(b-1)
  /// to 2^b - 1.
  std::vector<std::uint64_t> buckets;
};

LengthSummary document_lengths(const IndexedDataset& dataset);
LengthSummary sequence_lengths(const IndexedDataset& dataset);

/// The smallest and the largest id; both 0 without tokens. Finding them reads
/// the whole dataset.
struct IdRange {
  std::int64_t least = 0;
  std::int64_t most = 0;
};
IdRange id_range(const IndexedDataset& dataset);

} // namespace cairn::data
