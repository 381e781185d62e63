#pragma once

#include "distributed/watch/flight_recorder.h"

#include <cairn/base/error.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace cairn::distributed {

/// A call under way. The backend ends it, the watchdog may fail it first, and
/// the holder of the Pending waits for either. Does not use libtorch.
class Operation {
 public:
  using Clock = CollectiveRecord::Clock;
  using OnEnd = std::function<void(Operation&, const std::string& error)>;

  Operation(
      CollectiveRecord record,
      std::shared_ptr<const std::vector<int>> members,
      Clock::time_point deadline,
      OnEnd on_end);

  const CollectiveRecord& record() const { return record_; }
  const std::vector<int>& members() const { return *members_; }
  /// Time limit of the call. Only the watchdog uses it, under its lock.
  Clock::time_point deadline() const { return deadline_; }
  void postpone(Clock::duration time) { deadline_ += time; }

  /// Says that the backend cut the call into `parts`. Called before any part
  /// can end.
  void expect(int parts);
  /// Says that one part is over; `error` is the library's text, empty if all
  /// went well. Any thread may call it.
  void part_ended(const std::string& error);
  /// Says how to find out whether the operation is over, where nobody calls
  /// part_ended() on its own. The watchdog asks before it raises an alarm.
  void end_when(std::function<bool()> is_over);
  /// True when end_when() was called and the operation is over.
  bool is_over() const;
  /// Says how to make the backend give up. `abort` runs in abort_if_failed();
  /// at once if the operation has failed already.
  void on_abort(std::function<void()> abort);

  /// Has `listen` called with the time since the call, when the operation has
  /// ended well and before anybody learns of it. Called before any part can
  /// end.
  void on_success(std::function<void(Clock::duration)> listen);

  /// Ends the operation with this error, unless it has ended well already. The
  /// backend still works on it until abort_if_failed() is called.
  void fail(std::shared_ptr<const CommError> error);
  /// Makes the backend of a failed operation give up.
  void abort_if_failed();
  void succeed();

  bool ended() const;
  /// Blocks until the operation has ended; throws its error if it failed.
  void wait() const;
  /// Throws if the operation has failed. Does not block.
  void throw_if_failed() const;

 private:
  const CollectiveRecord record_;
  const std::shared_ptr<const std::vector<int>> members_;
  Clock::time_point deadline_;
  const OnEnd on_end_;

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  int parts_ = 1;
  bool ended_ = false;
  std::string library_error_;
  std::shared_ptr<const CommError> error_;
  std::function<void()> abort_;
  std::function<bool()> is_over_;
  std::function<void(Clock::duration)> on_success_;
};

} // namespace cairn::distributed
