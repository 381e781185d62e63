#pragma once

#include "distributed/internal/recorded_calls.h"
#include "engine/internal/recording_stream.h"

#include <cairn/distributed/process_group.h>

#include <functional>
#include <memory>

namespace cairn::inline engine {

/// Work of a GPU that is recorded once and repeated, with its collectives: the
/// watchdog sees every repetition.
class RepeatedWork {
 public:
  /// Records `work`. `group` is any group of the job. The stream outlives it.
  RepeatedWork(
      RecordingStream& stream,
      const distributed::ProcessGroup& group,
      const std::function<void()>& work)
      : stream_(stream),
        calls_(group, [&] { recorded_ = stream.record(work); }) {}

  void repeat() {
    calls_.check();
    recorded_->repeat();
    if (!calls_.empty()) {
      calls_.repeated(stream_.end_so_far());
    }
  }

 private:
  RecordingStream& stream_;
  std::unique_ptr<RecordedWork> recorded_;
  distributed::RecordedCalls calls_; ///< ends before what it watches
};

} // namespace cairn::engine
