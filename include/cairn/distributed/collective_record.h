#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::distributed {

enum class CollectiveState { scheduled, running, finished, failed };

/// A call that other ranks have to answer, as this rank saw it.
struct CollectiveRecord {
  using Clock = std::chrono::steady_clock;

  std::uint64_t id = 0; ///< number among all calls of this process
  /// Number of the call among the collectives of its group: the same number
  /// means the same call on every rank. For send and recv, the number of the
  /// message among those to the same peer.
  std::uint64_t sequence = 0;
  std::string operation; ///< "all_reduce"
  std::string detail;    ///< further facts that must agree: "sum", "root 2"
  std::string group;
  std::string group_key;           ///< unique, unlike the name of a group
  std::optional<int> peer;         ///< the other rank of a send or recv
  std::vector<std::int64_t> sizes; ///< elements of each tensor
  bool sizes_vary = false; ///< true when each rank may bring another size
  std::string dtype;
  std::int64_t bytes = 0; ///< sent by this rank, see bytes_sent()
  std::string site;       ///< "train.cpp:88"
  CollectiveState state = CollectiveState::scheduled;
  Clock::time_point called{};
  Clock::time_point ended{}; ///< set once finished or failed

  bool pending() const {
    return state == CollectiveState::scheduled ||
        state == CollectiveState::running;
  }
};

/// `all_reduce #14 of group "world"`, or `send #3 to rank 1 in group "world"`.
std::string name_of(const CollectiveRecord& record);
/// `all_reduce(float32 [1024], sum)`: the parts that the ranks must agree on.
std::string signature_of(const CollectiveRecord& record);

/// Totals of the calls of one kind on one group so far.
struct Traffic {
  std::string group;
  std::string operation; ///< "all_gather"
  std::int64_t calls = 0;
  std::int64_t bytes = 0; ///< sent by this rank
  bool operator==(const Traffic&) const = default;
};

/// Bytes that one rank has to send in a call on tensors of `bytes`, by the
/// algorithm that sends least. The number does not depend on the backend's
/// algorithm, so runs can be compared. A broadcast counts the same for every
/// rank.
std::int64_t bytes_sent(
    std::string_view operation,
    std::int64_t bytes,
    int ranks);

} // namespace cairn::distributed
