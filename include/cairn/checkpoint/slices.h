#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace cairn::checkpoints {

/// A block of a tensor: from where, and how much, in every dimension. Empty:
/// all of it.
struct Box {
  std::vector<std::int64_t> begin;
  std::vector<std::int64_t> size;
  bool empty() const { return begin.empty(); }
  auto operator<=>(const Box&) const = default;
};

/// What one rank has of a named tensor: some elements in a row, counted within
/// a box of the tensor (tensor parallelism cuts boxes, ZeRO cuts those flat).
struct TensorSlice {
  std::string name;
  std::vector<std::int64_t> shape; ///< of the whole tensor
  Box box{};
  std::int64_t begin = 0; ///< first element, in the box
  at::Tensor values{};    ///< one-dimensional
  std::int64_t end() const { return begin + values.numel(); }
};

/// Takes slices of a state. The ranks together bring every element of every
/// tensor once.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual void put(const TensorSlice& slice) = 0;
};

/// Where some elements of a named tensor are to go.
struct SliceToRead {
  std::string name;
  Box box{};
  std::int64_t begin = 0; ///< first element, in the box
  at::Tensor into{};      ///< one-dimensional
};

/// Gives any stretch of what was saved, whoever wrote it: so a state loads at
/// another world size, ZeRO stage or tensor-parallel size than it was saved at.
class Source {
 public:
  virtual ~Source() = default;
  virtual bool contains(const std::string& name) const = 0;
  virtual std::vector<std::int64_t> shape(const std::string& name) const = 0;
  virtual at::ScalarType type(const std::string& name) const = 0;
  /// Fills them, with values converted if they were saved in another type.
  /// Many in one call are faster than one by one. Throws CheckpointError.
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
