#pragma once

#include <cairn/distributed/traffic.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
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

/// Keeps the last collectives of this rank in a ring: cheap enough to be always
/// on, so that a hang can be explained after the fact. Safe to use from any
/// thread.
class FlightRecorder {
 public:
  explicit FlightRecorder(std::size_t capacity = 256);

  /// Notes a group with its members, so that ranks that compare notes know who
  /// was expected where.
  void add_group(const std::string& key, std::vector<int> ranks);
  void remove_group(const std::string& key);

  /// Fills in id and time of the call, keeps the record and returns it.
  CollectiveRecord schedule(CollectiveRecord record);
  void running(std::uint64_t id);
  void ended(std::uint64_t id, CollectiveState state);

  /// Records still in the ring, oldest first.
  std::vector<CollectiveRecord> records() const;
  /// Members of each group, by group key.
  std::map<std::string, std::vector<int>> groups() const;
  /// Number of the last collective called on each group, known long after the
  /// ring has forgotten the call itself.
  std::map<std::string, std::uint64_t> reached() const;
  /// Totals of all calls so far, by the names of groups and operations.
  std::vector<Traffic> traffic() const;

 private:
  CollectiveRecord* find(std::uint64_t id);

  mutable std::mutex mutex_;
  std::size_t capacity_;
  std::uint64_t next_id_ = 0;
  std::vector<CollectiveRecord> ring_; ///< record `id` is at id % capacity
  std::map<std::string, std::vector<int>> groups_;
  std::map<std::string, std::uint64_t> reached_;
  std::map<std::string, std::map<std::string, Traffic>> traffic_;
};

} // namespace cairn::distributed
