#pragma once

#include "group_backend.h"
#include "job.h"

#include <cairn/distributed/process_group.h>

#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace cairn::distributed::detail {

/// What the copies of a ProcessGroup share.
struct GroupCore {
  /// Sets the group up together with its other members.
  static std::shared_ptr<GroupCore> make(
      std::shared_ptr<Job> job,
      std::string name,
      std::vector<int> ranks);
  /// One rank that needs nobody; `job` may be null.
  static std::shared_ptr<GroupCore> alone(
      std::shared_ptr<Job> job,
      std::string name,
      int global_rank);

  ~GroupCore();

  int size() const { return static_cast<int>(members->size()); }
  /// Of the world.
  const std::vector<int>& ranks() const { return *members; }
  /// Throws what went wrong in a Pending that nobody waited for.
  void rethrow_kept();

  std::shared_ptr<Job> job;
  std::string name;
  /// Names the group in the store: two groups may share a name, not this.
  std::string key;
  int rank = 0;
  std::shared_ptr<const std::vector<int>> members;
  std::unique_ptr<GroupBackend> backend;
  bool watched = false; ///< has peers: recorded and timed

  /// Held while a call is numbered and handed to the backend, so that the
  /// numbers mean the same on every rank.
  std::mutex mutex;
  std::uint64_t sequence = 0;
  std::map<std::pair<std::string, int>, std::uint64_t> messages;
  /// For require_all(), once it is called: to wait blocks a connection, and
  /// one for each of many groups would be too many for the store's host.
  std::unique_ptr<Store> meeting_store;
  std::map<std::string, std::uint64_t> meetings;
  std::string last_meeting;                        ///< where all met last
  std::map<std::string, std::uint64_t> agreements; ///< made, by name
  std::exception_ptr kept;
};

struct PendingState {
  std::shared_ptr<GroupCore> core;
  std::shared_ptr<Operation> operation; ///< null: it was over at once
  Landing landing;
  std::vector<at::Tensor> results;
  bool waited = false; ///< whoever waits has been told of errors
  std::exception_ptr landing_error;

  /// Throws again when called again.
  void land();
};

} // namespace cairn::distributed::detail
