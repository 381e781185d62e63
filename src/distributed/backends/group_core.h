#pragma once

#include "distributed/backends/group_backend.h"
#include "distributed/start/job.h"

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

/// The state that copies of a ProcessGroup share.
struct GroupCore {
  /// Sets the group up, together with its other members.
  static std::shared_ptr<GroupCore> make(
      std::shared_ptr<Job> job,
      std::string name,
      std::vector<int> ranks);
  /// Sets up a part of `whole`, while all ranks of `whole` set up theirs.
  /// `ranks` are the part's members, as ranks of the world.
  static std::shared_ptr<GroupCore> make_part(
      GroupCore& whole,
      std::string name,
      std::vector<int> ranks);
  /// A group of one rank, which needs nobody; `job` may be null.
  static std::shared_ptr<GroupCore> alone(
      std::shared_ptr<Job> job,
      std::string name,
      int global_rank);

  ~GroupCore();

  int size() const { return static_cast<int>(members->size()); }
  /// Members as ranks of the world.
  const std::vector<int>& ranks() const { return *members; }
  /// Throws the error of a Pending that nobody waited for.
  void rethrow_kept();
  /// The place of a rank of the world in the group.
  int place_of(int global_rank) const;

  std::shared_ptr<Job> job;
  std::string name;
  /// Name of the group in the store; unique, unlike `name`.
  std::string key;
  int rank = 0;
  std::shared_ptr<const std::vector<int>> members;
  std::unique_ptr<GroupBackend> backend;
  /// True when the group has peers: its calls are recorded and timed.
  bool watched = false;

  /// Held while a call is numbered and handed to the backend, so that the
  /// numbers mean the same on every rank.
  std::mutex mutex;
  std::uint64_t sequence = 0;
  std::map<std::pair<std::string, int>, std::uint64_t> messages;
  /// Connection for require_all(), made by its first call: waiting blocks a
  /// connection, and one for each of many groups would be too many for the
  /// store's host.
  std::unique_ptr<Store> meeting_store;
  std::map<std::string, std::uint64_t> meetings;
  /// Key of the meeting where all members met last.
  std::string last_meeting;
  /// Number of times that the group was cut into parts.
  std::uint64_t partitions = 0;
  /// Number of agreements made so far, by name.
  std::map<std::string, std::uint64_t> agreements;
  /// Error of a Pending that nobody waited for.
  std::exception_ptr kept;
};

/// The name of a part of a group: `name`, or one made of its ranks within the
/// group if that is empty.
std::string part_name(
    const GroupCore& whole,
    const std::vector<int>& ranks,
    const std::string& name);

struct PendingState {
  std::shared_ptr<GroupCore> core;
  std::shared_ptr<Operation> operation; ///< null when the call was over at once
  Landing landing;
  std::vector<at::Tensor> results;
  bool waited = false; ///< true once wait() was called: its caller has been
                       ///< told of errors
  std::exception_ptr landing_error;

  /// Waits for the operation and finishes its landing. Throws the same error
  /// again when called again.
  void land();
};

} // namespace cairn::distributed::detail
