#pragma once

#include <cairn/checkpoints/python_value.h>

#include <cstddef>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace cairn::checkpoints {

/// A stored tensor whose elements can still be read: a part of a mapped file.
struct TensorBytes {
  StoredTensor place;
  std::span<const std::byte> storage;
  std::shared_ptr<const void> owner; ///< keeps the mapping
};

/// A tensor that was made here: in memory, or loaded when asked for.
struct MadeTensor {
  StoredTensor place;
  at::Tensor tensor;
  /// Elements of the tensor, one piece after the other, if there is no
  /// `tensor`.
  std::vector<LazyTensor> pieces;
};

struct PythonValue::Node {
  Kind kind = Kind::none;
  std::int64_t number = 0; ///< integer, boolean
  double real = 0;
  std::string text;               ///< text, bytes, big integer (little endian)
  std::vector<const Node*> items; ///< dict: key, value, key, value, …
  const Node* type = nullptr;     ///< object: its class, a global
  const Node* state = nullptr;    ///< object: its state
  bool by_new = false; ///< object: made by cls.__new__(cls), not by cls()
  std::shared_ptr<const MadeTensor> made;   ///< tensor made here
  std::shared_ptr<const TensorBytes> bytes; ///< tensor read from a file
  /// Owners of `items`, for values made here, which may come from several
  /// files.
  std::vector<std::shared_ptr<const Node>> owners;
};

/// Owns the nodes of one pickle, so that cycles and great depth cost nothing
/// when the nodes are freed.
class PythonNodes {
 public:
  explicit PythonNodes(std::size_t most) : most_(most) {}

  PythonValue::Node& add(PythonValue::Kind kind);

 private:
  std::deque<PythonValue::Node> nodes_;
  std::size_t most_;
};

/// "module.name" of a global, whose text has module and name separated by a
/// line break.
std::string dotted(const std::string& global);

} // namespace cairn::checkpoints
