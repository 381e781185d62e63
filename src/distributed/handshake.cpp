#include "handshake.h"

#include <fmt/format.h>

#include <algorithm>

namespace cairn::distributed {
namespace {

std::string place(const std::string& key, int rank) {
  return key + "/" + std::to_string(rank);
}

} // namespace

std::vector<int> meet(
    Store& store,
    const std::string& key,
    int rank,
    const std::vector<int>& members,
    std::chrono::milliseconds timeout) {
  store.set(place(key, rank), "");
  std::vector<std::string> keys;
  for (const int member : members) {
    keys.push_back(place(key, member));
  }
  std::vector<int> missing;
  if (!store.wait(keys, timeout)) {
    for (const int member : members) {
      if (!store.get(place(key, member))) {
        missing.push_back(member);
      }
    }
  }
  return missing;
}

void forget_meeting(
    Store& store,
    const std::string& key,
    const std::vector<int>& members) {
  for (const int member : members) {
    store.erase(place(key, member));
  }
}

std::string name_ranks(const std::vector<int>& ranks) {
  constexpr std::size_t shown = 16;
  const std::size_t count = std::min(shown, ranks.size());
  std::string text = fmt::format(
      "rank{} {}",
      ranks.size() == 1 ? "" : "s",
      fmt::join(ranks.begin(), ranks.begin() + count, ", "));
  if (ranks.size() > shown) {
    text += fmt::format(" and {} more", ranks.size() - shown);
  }
  return text;
}

} // namespace cairn::distributed
