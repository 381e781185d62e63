#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace cairn::data {

/// Hands out this rank's number and returns every rank's, in order of rank.
using AllGather = std::function<std::vector<std::uint64_t>(std::uint64_t)>;

/// Every rank calls this with the checksum of what must be the same on all of
/// them, such as GptDatasets::checksum(). Ranks that differ would train on
/// other samples than the rest believe; on all ranks this is a DataError that
/// names them.
void require_agreement(
    std::string_view what,
    std::uint64_t checksum,
    const AllGather& all_gather);

} // namespace cairn::data
