#include "data/internal/index_agreement.h"

#include <cairn/base/error.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <map>

namespace cairn::data {

void require_agreement(
    std::string_view what,
    std::uint64_t checksum,
    const AllGather& all_gather) {
  const std::vector<std::uint64_t> all = all_gather(checksum);
  std::map<std::uint64_t, std::vector<std::size_t>> ranks;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    ranks[all[rank]].push_back(rank);
  }
  if (ranks.size() <= 1) {
    return;
  }
  // The value of the majority is taken as right; in a tie, that of the lowest
  // rank.
  const auto most = std::max_element(
      ranks.begin(),
      ranks.end(),
      [](const auto& a, const auto& b) {
        return a.second.size() != b.second.size()
            ? a.second.size() < b.second.size()
            : a.second.front() > b.second.front();
      });
  std::vector<std::size_t> others;
  for (const auto& [value, who] : ranks) {
    if (value != most->first) {
      others.insert(others.end(), who.begin(), who.end());
    }
  }
  std::sort(others.begin(), others.end());
  constexpr std::size_t most_named = 16;
  const std::size_t named = std::min(others.size(), most_named);
  throw DataError(
      {.what = fmt::format(
           "{} {} {} of {} than the other {}",
           named == 1 ? "rank" : "ranks",
           fmt::join(others.begin(), others.begin() + named, ", "),
           others.size() > named ? fmt::format(
                                       "and {} more have another order",
                                       others.size() - named)
               : named == 1 ? "has another order"
                            : "have another order",
           what,
           all.size() - others.size()),
       .values = fmt::format(
           "checksum {:016x} on most, {:016x} on rank {}",
           most->first,
           all[others.front()],
           others.front()),
       .remedy = "give all hosts the same data files and flags, and remove "
                 "the index files of the ranks that differ"});
}

} // namespace cairn::data
