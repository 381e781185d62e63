#include "data/preprocess/sentence_run.h"

#include <cairn/base/error.h>

#include <fmt/format.h>

#include <span>

namespace cairn::data {

void append_sentences(
    const IndexedDataset& sentences,
    std::size_t first,
    std::size_t end,
    std::vector<std::int64_t>& tokens) {
  for (std::size_t i = first; i < end; ++i) {
    const std::size_t before = tokens.size();
    tokens.resize(before + sentences.length(i));
    sentences.read(i, 0, std::span(tokens).subspan(before));
  }
}

NumpyRandom sample_random(std::uint32_t seed, std::size_t sample) {
  return NumpyRandom(static_cast<std::uint32_t>(seed + sample));
}

MaskedIndex::Row row_of(
    const MaskedIndex& index,
    std::size_t sample,
    const IndexedDataset& sentences,
    std::int64_t max_length) {
  if (sample >= index.size()) {
    throw InternalError(
        {.what = "a masked dataset is asked for a sample that it has not",
         .values = fmt::format("{} of {}", sample, index.size())});
  }
  const MaskedIndex::Row row = index[sample];
  if (row.first >= row.end || row.end > sentences.sequence_count() ||
      row.target_length < 0 || row.target_length > max_length) {
    throw DataError(
        {.what = "the sample index does not belong to the sentences",
         .where = sentences.prefix().string(),
         .values = fmt::format(
             "sample {}: sentences [{}, {}) of {}, target length {}",
             sample,
             row.first,
             row.end,
             sentences.sequence_count(),
             row.target_length),
         .remedy = "remove the index files: they will be built again"});
  }
  return row;
}

} // namespace cairn::data
