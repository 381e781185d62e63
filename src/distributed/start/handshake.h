#pragma once

#include "distributed/start/store.h"

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace cairn::distributed {

/// Tells the others that `rank` is here and waits for them. Returns the ranks
/// that did not come in time: empty when all came. The first rank to know
/// decides for all, so that a late rank does not go on alone: it finds itself
/// among the missing. `meanwhile` is called every second while the rank waits;
/// an exception from it ends the waiting.
std::vector<int> meet(
    Store& store,
    const std::string& key,
    int rank,
    const std::vector<int>& members,
    std::chrono::milliseconds timeout,
    const std::function<void()>& meanwhile = {});

/// Removes the keys of a meeting from the store. One rank calls it, after all
/// have met again elsewhere.
void forget_meeting(
    Store& store,
    const std::string& key,
    const std::vector<int>& members);

bool contains(const std::vector<int>& ranks, int rank);

/// "rank 3" or "ranks 3, 5 and 14 more".
std::string name_ranks(const std::vector<int>& ranks);

} // namespace cairn::distributed
