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

/// One call that other ranks have to answer, as this rank saw it.
struct CollectiveRecord {
  using Clock = std::chrono::steady_clock;

  std::uint64_t id = 0; ///< counts all calls of this process
  /// Counts the collectives of its group, so that the same number means the
  /// same call on every rank; for send and recv, the messages to this peer.
  std::uint64_t sequence = 0;
  std::string operation; ///< "all_reduce"
  std::string detail;    ///< what else must agree: "sum", "root 2"
  std::string group;
  std::string group_key;           ///< two groups may share a name, not this
  std::optional<int> peer;         ///< the other rank of a send or recv
  std::vector<std::int64_t> sizes; ///< elements of each tensor
  bool sizes_vary = false;         ///< each rank may rightly bring another size
  std::string dtype;
  std::int64_t bytes = 0; ///< that this rank sends, see bytes_sent()
  std::string site;       ///< "train.cpp:88"
  CollectiveState state = CollectiveState::scheduled;
  Clock::time_point called{};
  Clock::time_point ended{}; ///< once finished or failed

  bool pending() const {
    return state == CollectiveState::scheduled ||
        state == CollectiveState::running;
  }
};

/// `all_reduce #14 of group "world"`, or `send #3 to rank 1 in group "world"`.
std::string name_of(const CollectiveRecord& record);
/// `all_reduce(float32 [1024], sum)`: what has to agree between ranks.
std::string signature_of(const CollectiveRecord& record);

/// The last collectives of this rank, in a ring: cheap enough to be always on,
/// so that a hang can be explained after the fact. Safe to use from any thread.
class FlightRecorder {
 public:
  explicit FlightRecorder(std::size_t capacity = 256);

  /// Groups are noted with their members, so that ranks comparing notes know
  /// who was expected where.
  void add_group(const std::string& key, std::vector<int> ranks);
  void remove_group(const std::string& key);

  /// Fills id and time of call, keeps the record and returns it.
  CollectiveRecord schedule(CollectiveRecord record);
  void running(std::uint64_t id);
  void ended(std::uint64_t id, CollectiveState state);

  /// Oldest first.
  std::vector<CollectiveRecord> records() const;
  /// Members by group key.
  std::map<std::string, std::vector<int>> groups() const;
  /// The last collective called on each group, long after the ring forgot it.
  std::map<std::string, std::uint64_t> reached() const;
  /// Of all calls so far, by the names of groups and operations.
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
