#pragma once

#include <cairn/distributed/collective_record.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace cairn::distributed {

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
  /// True once all groups are gone again: the program is done with the job.
  bool has_no_group_left() const;

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
  bool had_groups_ = false;
  std::map<std::string, std::uint64_t> reached_;
  std::map<std::string, std::map<std::string, Traffic>> traffic_;
};

} // namespace cairn::distributed
