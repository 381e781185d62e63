#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace cairn::checkpoints {

/// A block of a tensor: where it begins and how large it is, in every
/// dimension. Empty: the whole tensor.
struct Box {
  std::vector<std::int64_t> begin;
  std::vector<std::int64_t> size;
  bool empty() const { return begin.empty(); }
  auto operator<=>(const Box&) const = default;
};

/// A rank's part of a named tensor: consecutive elements, counted within a box
/// of the tensor. (Tensor parallelism cuts boxes, ZeRO cuts these flat.)
struct TensorSlice {
  std::string name;
  std::vector<std::int64_t> shape; ///< shape of the whole tensor
  Box box{};
  std::int64_t begin = 0; ///< first element, in the box
  at::Tensor values{};    ///< one-dimensional
  std::int64_t end() const { return begin + values.numel(); }
};

/// Takes slices of a state. All ranks together bring every element of every
/// tensor exactly once.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual void put(const TensorSlice& slice) = 0;
};

/// The place where some elements of a named tensor go.
struct SliceToRead {
  std::string name;
  Box box{};
  std::int64_t begin = 0; ///< first element, in the box
  at::Tensor into{};      ///< one-dimensional
};

/// Gives any part of the saved tensors, whichever ranks wrote them. A state can
/// therefore be loaded at another world size, ZeRO stage or tensor-parallel
/// size than it was saved at.
class Source {
 public:
  virtual ~Source() = default;
  virtual bool contains(const std::string& name) const = 0;
  virtual std::vector<std::int64_t> shape(const std::string& name) const = 0;
  virtual at::ScalarType type(const std::string& name) const = 0;
  /// Fills the slices, converting values that were saved in another type. Many
  /// slices in one call are faster than one by one. Throws CheckpointError.
  virtual void read(const std::vector<SliceToRead>& slices) const = 0;
  void read(
      const std::string& name,
      const Box& box,
      std::int64_t begin,
      const at::Tensor& into) const {
    read({{name, box, begin, into}});
  }
  void read(const std::string& name, std::int64_t begin, const at::Tensor& into)
      const {
    read(name, Box{}, begin, into);
  }
};

} // namespace cairn::checkpoints
