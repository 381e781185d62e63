#pragma once

#include <cairn/data/indexed_dataset.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <vector>

namespace cairn::data {

/// The prefixes of all pairs in a folder, sorted by name, as in Megatron's
/// tools/merge_datasets.py. Throws DataError if half of a pair is missing.
std::vector<std::filesystem::path> datasets_in(
    const std::filesystem::path& folder);

/// Writes the datasets one after another into a new pair. All must have the
/// same format and type. `progress` gets the number of token bytes copied.
void merge_datasets(
    std::span<const std::filesystem::path> prefixes,
    const std::filesystem::path& output_prefix,
    const std::function<void(std::uint64_t bytes)>& progress);

} // namespace cairn::data
