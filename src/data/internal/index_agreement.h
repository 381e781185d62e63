#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace cairn::data {

/// Shares this rank's number and returns every rank's, in order of rank.
using AllGather = std::function<std::vector<std::uint64_t>(std::uint64_t)>;

/// Checks that a checksum, such as GptDatasets::checksum(), is the same on all
/// ranks; every rank calls it. Ranks that differ would train on other samples
/// than the rest assume, so all ranks then throw a DataError that names them.
void require_agreement(
    std::string_view what,
    std::uint64_t checksum,
    const AllGather& all_gather);

} // namespace cairn::data
