#pragma once

#include <cairn/checkpoint/python_value.h>

#include <cstddef>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace cairn::checkpoints {

/// Elements of a stored tensor that can still be read: a part of a mapped file.
struct TensorBytes {
  StoredTensor place;
  std::span<const std::byte> storage;
  std::shared_ptr<const void> owner; ///< of the mapping
};

/// A tensor that was made here: at hand, or loaded when asked for.
struct MadeTensor {
  StoredTensor place;
  at::Tensor tensor;
  /// If there is no `tensor`: its elements, one piece after the other.
  std::vector<LazyTensor> pieces;
};

struct PythonValue::Node {
  Kind kind = Kind::none;
  std::int64_t number = 0; ///< integer, boolean
  double real = 0;
  std::string text;               ///< text, bytes, big integer (little endian)
  std::vector<const Node*> items; ///< dict: key, value, key, value, …
  const Node* type = nullptr;     ///< object: its class, a global
  const Node* state = nullptr;    ///< object
  bool by_new = false;            ///< object: of cls.__new__(cls), not of cls()
  std::shared_ptr<const MadeTensor> made;   ///< tensor: made here,
  std::shared_ptr<const TensorBytes> bytes; ///< or read from a file
  /// Of values made here, which may come from several files.
  std::vector<std::shared_ptr<const Node>> owners;
};

/// Owns the nodes of one pickle, so that cycles and great depth cost nothing
/// when it ends.
class PythonNodes {
 public:
  explicit PythonNodes(std::size_t most) : most_(most) {}

  PythonValue::Node& add(PythonValue::Kind kind);

 private:
  std::deque<PythonValue::Node> nodes_;
  std::size_t most_;
};

/// "module.name"; a global's text has both, parted by a line break.
std::string dotted(const std::string& global);

} // namespace cairn::checkpoints
