#pragma once

#include <cairn/nn/checkpoint.h>

#include <chrono>
#include <string_view>

namespace cairn::nn {

/// The beginning and end of one pass through a checkpoint. Waits and takes the
/// time where the options ask for it.
class Boundary {
 public:
  Boundary(const CheckpointOptions& options, std::string_view pass);
  void end() const;

 private:
  void wait() const;

  const CheckpointOptions& options_;
  std::string_view pass_;
  std::chrono::steady_clock::time_point start_;
};

} // namespace cairn::nn
