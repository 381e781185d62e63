#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace cairn::checkpoints {

/// A stretch of a named tensor, flat: what one rank has of it.
struct TensorSlice {
  std::string name;
  std::vector<std::int64_t> shape; ///< of the whole tensor
  std::int64_t begin = 0;          ///< first element
  at::Tensor values;               ///< one-dimensional, on the CPU
};

/// Takes slices of a state in any order. The ranks together bring every element
/// of every tensor once.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual void put(const TensorSlice& slice) = 0;
};

/// Gives any stretch of what was saved, whoever wrote it: so a state loads at
/// another world size or ZeRO stage than it was saved at.
class Source {
 public:
  virtual ~Source() = default;
  virtual bool contains(const std::string& name) const = 0;
  virtual std::vector<std::int64_t> shape(const std::string& name) const = 0;
  /// Fills `into` (one-dimensional, of the saved type) from element `begin` on.
  /// Throws CheckpointError.
  virtual void read(
      const std::string& name,
      std::int64_t begin,
      at::Tensor& into) const = 0;
};

} // namespace cairn::checkpoints
