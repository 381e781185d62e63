#pragma once

#include <sys/prctl.h>

namespace cairn::launch {

/// Makes this process the parent of orphans: while one exists, processes whose
/// parents end become our children, however they detached themselves.
class Subreaper {
 public:
  Subreaper() {
    ::prctl(PR_GET_CHILD_SUBREAPER, &before_);
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  }
  ~Subreaper() { ::prctl(PR_SET_CHILD_SUBREAPER, before_); }
  Subreaper(const Subreaper&) = delete;
  Subreaper& operator=(const Subreaper&) = delete;

 private:
  int before_ = 0;
};

} // namespace cairn::launch
