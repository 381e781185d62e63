#pragma once

#include "base/internal/numpy_random.h"

#include <cairn/data/indexed_dataset.h>
#include <cairn/data/masked_dataset.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cairn::data {

/// Appends the tokens of sentences [first, end).
void append_sentences(
    const IndexedDataset& sentences,
    std::size_t first,
    std::size_t end,
    std::vector<std::int64_t>& tokens);

/// The generator of a sample, RandomState((seed + sample) % 2^32), from which
/// all its draws come.
NumpyRandom sample_random(std::uint32_t seed, std::size_t sample);

/// The row of a sample. Throws InternalError for a sample that does not exist,
/// and DataError for a row that points outside the sentences, which only a
/// broken file has.
MaskedIndex::Row row_of(
    const MaskedIndex& index,
    std::size_t sample,
    const IndexedDataset& sentences,
    std::int64_t max_length);

} // namespace cairn::data
