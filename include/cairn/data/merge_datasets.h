#pragma once

#include <cairn/data/indexed_dataset.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <vector>

namespace cairn::data {

/// The prefixes of all pairs in a folder, sorted by name, as Megatron's
/// tools/merge_datasets.py takes them. Half a pair is a DataError.
std::vector<std::filesystem::path> datasets_in(
    const std::filesystem::path& folder);

/// Writes one dataset after another into a new pair, in the format and type
/// that all of them must share. `progress` gets the bytes of tokens copied.
void merge_datasets(
    std::span<const std::filesystem::path> prefixes,
    const std::filesystem::path& output_prefix,
    const std::function<void(std::uint64_t bytes)>& progress);

} // namespace cairn::data
