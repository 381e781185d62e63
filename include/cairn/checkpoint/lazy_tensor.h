#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace cairn::checkpoints {

/// A tensor that is read when asked for, and joined, cut or reordered on the
/// way: files larger than memory are converted one tensor at a time.
struct LazyTensor {
  at::ScalarType type = at::kFloat;
  std::vector<std::int64_t> shape;
  /// On the CPU, of that type and shape; each call reads anew. It may be the
  /// file's own memory: not to be written to.
  std::function<at::Tensor()> load;
};

/// In the order in which they are written.
using NamedTensors = std::vector<std::pair<std::string, LazyTensor>>;

} // namespace cairn::checkpoints
