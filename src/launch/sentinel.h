#pragma once

#include <cairn/base/unique_fd.h>

#include <sys/types.h>

#include <string_view>

namespace cairn::launch {

/// A process beside the launcher that does nothing but wait for its end. When
/// the launcher is killed before it could clean up, the kernel kills the ranks
/// (PDEATHSIG) and the sentinel what the ranks have started.
class Sentinel {
 public:
  /// Watches over the job of this launch id, from here until destruction.
  explicit Sentinel(std::string_view launch_id);
  ~Sentinel();
  Sentinel(const Sentinel&) = delete;
  Sentinel& operator=(const Sentinel&) = delete;

  pid_t pid() const { return pid_; }

 private:
  UniqueFd line_; ///< its end here closes when we die
  pid_t pid_ = -1;
};

} // namespace cairn::launch
