#include "distributed/start/handshake.h"

#include <fmt/format.h>

#include <algorithm>

namespace cairn::distributed {
namespace {

constexpr const char* all_came = "go";

std::string place(const std::string& key, int rank) {
  return key + "/" + std::to_string(rank);
}

std::string verdict_place(const std::string& key) {
  return key + "/verdict";
}

/// The members that the verdict lists, as in "1,4".
std::vector<int> listed(
    const std::string& verdict,
    const std::vector<int>& members) {
  const std::string list = "," + verdict + ",";
  std::vector<int> result;
  for (const int member : members) {
    if (list.find(fmt::format(",{},", member)) != std::string::npos) {
      result.push_back(member);
    }
  }
  return result;
}

std::string judge_place(const std::string& key) {
  return key + "/judge";
}

/// Time that the rank which looks for the missing ones has for it.
constexpr std::chrono::milliseconds judging = std::chrono::seconds(5);

/// Looks for the members that have not come. Only the first rank whose patience
/// ends does so; the others wait for its verdict, since all of them together
/// would ask the store for every member once per member.
std::vector<int> find_missing(
    Store& store,
    const std::string& key,
    int rank,
    const std::vector<int>& members) {
  const std::string self = std::to_string(rank);
  std::vector<int> missing;
  if (store.set_once(judge_place(key), self) != self &&
      store.wait({verdict_place(key)}, judging)) {
    return missing;
  }
  for (const int member : members) {
    if (!store.get(place(key, member))) {
      missing.push_back(member);
    }
  }
  return missing;
}

/// Store::wait() that calls `meanwhile` every second, if there is one.
bool wait_watchfully(
    Store& store,
    const std::vector<std::string>& keys,
    std::chrono::milliseconds timeout,
    const std::function<void()>& meanwhile) {
  constexpr std::chrono::milliseconds slice = std::chrono::seconds(1);
  while (meanwhile && timeout > slice) {
    if (store.wait(keys, slice)) {
      return true;
    }
    timeout -= slice;
    meanwhile();
  }
  return store.wait(keys, timeout);
}

} // namespace

// The first member alone waits for all of them, and the others for its verdict:
// if every member waited for every other, the store would keep a list of
// members x members.
std::vector<int> meet(
    Store& store,
    const std::string& key,
    int rank,
    const std::vector<int>& members,
    std::chrono::milliseconds timeout,
    const std::function<void()>& meanwhile) {
  store.set(place(key, rank), "");
  std::vector<std::string> keys;
  if (rank == members.front()) {
    for (const int member : members) {
      keys.push_back(place(key, member));
    }
  } else {
    keys.push_back(verdict_place(key));
  }
  std::vector<int> missing;
  if (!wait_watchfully(store, keys, timeout, meanwhile)) {
    missing = find_missing(store, key, rank, members);
  }
  // `missing` may be empty after all: a member may have come just after the
  // wait. Another rank may have decided first; set_once() returns the verdict
  // that counts.
  const std::string verdict = store.set_once(
      verdict_place(key),
      missing.empty() ? all_came : fmt::format("{}", fmt::join(missing, ",")));
  return listed(verdict, members);
}

void forget_meeting(
    Store& store,
    const std::string& key,
    const std::vector<int>& members) {
  for (const int member : members) {
    store.erase(place(key, member));
  }
  store.erase(judge_place(key));
  store.erase(verdict_place(key));
}

bool contains(const std::vector<int>& ranks, int rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
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
