#pragma once

#include "checkpoints/internal/slice_file.h"

#include <cairn/checkpoints/slices.h>

#include <cstdint>
#include <vector>

namespace cairn::inline engine {

/// Slices copied to host memory, so that they can be written while training
/// changes the originals. The memory is kept for the next time.
class Snapshot final : public checkpoints::Sink {
 public:
  /// Forgets the slices and makes room for those that are planned.
  void clear(const checkpoints::SlicePlan& plan, bool pin);
  void put(const checkpoints::TensorSlice& slice) override;
  const std::vector<checkpoints::TensorSlice>& slices() const {
    return slices_;
  }

 private:
  at::Tensor memory_; ///< bytes
  std::int64_t used_ = 0;
  std::vector<checkpoints::TensorSlice> slices_;
};

} // namespace cairn::engine
