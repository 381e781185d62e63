#include "data/internal/dataset_summary.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <span>

namespace cairn::data {
namespace {

class Lengths {
 public:
  void add(std::uint64_t length) {
    const auto bucket = static_cast<std::size_t>(std::bit_width(length));
    if (summary_.buckets.size() <= bucket) {
      summary_.buckets.resize(bucket + 1);
    }
    ++summary_.buckets[bucket];
    summary_.least =
        summary_.count == 0 ? length : std::min(summary_.least, length);
    summary_.most = std::max(summary_.most, length);
    ++summary_.count;
    total_ += length;
  }
  LengthSummary summary() {
    if (summary_.count > 0) {
      summary_.mean =
          static_cast<double>(total_) / static_cast<double>(summary_.count);
    }
    return summary_;
  }

 private:
  LengthSummary summary_;
  std::uint64_t total_ = 0;
};

} // namespace

LengthSummary document_lengths(const IndexedDataset& dataset) {
  Lengths lengths;
  const auto documents = dataset.document_indices();
  for (std::size_t i = 0; i < dataset.document_count(); ++i) {
    std::uint64_t length = 0;
    for (auto s = documents[i]; s < documents[i + 1]; ++s) {
      length += dataset.length(static_cast<std::size_t>(s));
    }
    lengths.add(length);
  }
  return lengths.summary();
}

LengthSummary sequence_lengths(const IndexedDataset& dataset) {
  Lengths lengths;
  for (std::size_t i = 0; i < dataset.sequence_count(); ++i) {
    lengths.add(dataset.length(i));
  }
  return lengths.summary();
}

IdRange id_range(const IndexedDataset& dataset) {
  IdRange range{
      std::numeric_limits<std::int64_t>::max(),
      std::numeric_limits<std::int64_t>::min()};
  std::vector<std::int64_t> piece(1 << 14);
  for (std::size_t i = 0; i < dataset.sequence_count(); ++i) {
    const std::size_t length = dataset.length(i);
    for (std::size_t at = 0; at < length; at += piece.size()) {
      const auto ids =
          std::span(piece).first(std::min(piece.size(), length - at));
      dataset.read(i, at, ids);
      for (const std::int64_t id : ids) {
        range.least = std::min(range.least, id);
        range.most = std::max(range.most, id);
      }
    }
  }
  return range.least > range.most ? IdRange{} : range;
}

} // namespace cairn::data
