#pragma once

#include <cairn/base/log.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace cairn::inline engine {

/// Warns while it lives that a write takes long: after `patience`, and then
/// whenever twice as much time has passed.
class SlowWriteWarning {
 public:
  SlowWriteWarning(
      Logger logger,
      std::string what,
      std::chrono::milliseconds patience = std::chrono::seconds(30));
  ~SlowWriteWarning();
  SlowWriteWarning(const SlowWriteWarning&) = delete;
  SlowWriteWarning& operator=(const SlowWriteWarning&) = delete;

 private:
  void watch(std::chrono::milliseconds patience);

  Logger logger_;
  std::string what_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::thread thread_;
};

} // namespace cairn::engine
