#pragma once

#include <cairn/distributed/process_group.h>

#include <functional>
#include <memory>

namespace cairn::distributed {

/// The calls that a CUDA graph has recorded. They run on the GPU whenever the
/// graph is repeated, without a call of this process, so each repetition is
/// told to the watchdog: as one call ("repeat") of every group that has calls
/// in the graph. A rank that does not repeat its graph is then named as one
/// that does not come to a collective.
class RecordedCalls {
 public:
  /// Runs `record`, and notes the calls that are recorded meanwhile: those of
  /// all groups of the job that `group` belongs to, from any thread.
  RecordedCalls(const ProcessGroup& group, const std::function<void()>& record);
  /// Waits for the last repetition, unless the job has failed: a communicator
  /// must not end before its calls.
  ~RecordedCalls();
  RecordedCalls(const RecordedCalls&) = delete;
  RecordedCalls& operator=(const RecordedCalls&) = delete;

  /// True when there are none.
  bool empty() const;
  /// Throws CommError if the job has failed: the graph must not be repeated
  /// then, since its communicators are gone.
  void check() const;
  /// Says that the calls were queued once more. `is_over` tells whether the GPU
  /// is done with them; any thread may call it. Throws CommError if the job has
  /// failed.
  void repeated(std::function<bool()> is_over);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace cairn::distributed
