#pragma once

#include "distributed/backends/group_backend.h"
#include "distributed/internal/comms_log.h"
#include "distributed/start/store.h"
#include "distributed/watch/watchdog.h"

#include <cairn/base/log.h>
#include <cairn/distributed/environment.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace cairn::distributed {

namespace detail {
struct GroupCore;
}

/// The state that all groups of one process share. Members are destroyed from
/// the last to the first: the watchdog says goodbye while the store is still
/// there.
struct Job {
  Environment environment;
  std::chrono::milliseconds start_timeout{};
  std::mutex mutex;
  std::map<std::string, std::uint64_t> groups_made;
  using OnRecorded = std::function<
      void(const std::shared_ptr<detail::GroupCore>&, const CollectiveRecord&)>;
  /// Takes calls that a CUDA graph records instead of running them; null while
  /// none is recorded.
  OnRecorded on_recorded;
  /// Takes the sizes and times of calls; null while nobody asks for them.
  std::shared_ptr<CommsLog> comms_log;
  std::unique_ptr<Store> store;
  std::unique_ptr<BackendFactory> factory;
  std::shared_ptr<Watchdog> watchdog;

  /// Number of groups that this rank has made with the same name and members.
  /// The members agree on the number, since they make their groups in the same
  /// order.
  std::uint64_t count_group(const std::string& name_and_members) {
    const std::lock_guard lock(mutex);
    return ++groups_made[name_and_members];
  }

  std::shared_ptr<CommsLog> log_of_calls() {
    const std::lock_guard lock(mutex);
    return comms_log;
  }

  void recorded(
      const std::shared_ptr<detail::GroupCore>& group,
      const CollectiveRecord& record) {
    const std::lock_guard lock(mutex);
    if (on_recorded) {
      on_recorded(group, record);
    }
  }
};

} // namespace cairn::distributed
