#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>

namespace cairn::distributed {

/// The calls of a communicator that the GPU has not finished, and how the
/// communicator ends: closed after the last of them, or given up when a peer is
/// lost. Any thread may use it. Does not use libtorch.
class CallsUnderWay {
 public:
  enum class State { open, closed, giving_up, given_up };

  void began(std::size_t parts);
  /// Says that a part has ended well. A part that has failed never finishes:
  /// the watchdog has its call given up.
  void part_finished();

  /// Says that the calls are being given up. False if that was said before, or
  /// if the communicator is closed.
  bool give_up();
  /// Says that the calls have been given up.
  void given_up();

  /// Waits until every part has finished, and closes the communicator. If the
  /// calls are given up meanwhile, waits for the end of that instead, for at
  /// most `patience`. Returns the state in which that leaves the communicator.
  State close(std::chrono::milliseconds patience);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t parts_ = 0;
  State state_ = State::open;
};

} // namespace cairn::distributed
