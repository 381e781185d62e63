#pragma once

#include <cairn/base/file.h>

#include <sys/types.h>

#include <string_view>

namespace cairn::launch {

/// A process beside the launcher that only waits for the launcher's end. When
/// the launcher is killed before it can clean up, the kernel kills the ranks
/// (PDEATHSIG), and the sentinel kills the processes that the ranks have
/// started.
class Sentinel {
 public:
  /// Watches over the job with this launch id until destruction.
  explicit Sentinel(std::string_view launch_id);
  ~Sentinel();
  Sentinel(const Sentinel&) = delete;
  Sentinel& operator=(const Sentinel&) = delete;

  pid_t pid() const { return pid_; }

 private:
  UniqueFd line_; ///< closes when we die
  pid_t pid_ = -1;
};

} // namespace cairn::launch
