#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/checkpoint/lazy_tensor.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::checkpoints {

/// Where a tensor's elements lie.
struct StoredTensor {
  at::ScalarType type = at::kFloat;
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;
  std::int64_t offset = 0; ///< in elements
  std::string storage;     ///< tensors of one storage share memory in Python
};

/// What Python's pickle can hold, as data: nothing of it was ever run. A class
/// that we do not know is a record of its name, arguments and state.
///
/// A value is immutable and cheap to copy. Containers may contain themselves.
///
///   PythonValue file = read_torch_file("model_optim_rng.pt");
///   std::int64_t step = file.at("iteration").integer();
///   at::Tensor weight = file.at("model").at("weight").tensor();
class PythonValue {
 public:
  enum class Kind {
    none,
    boolean,
    integer,
    big_integer, ///< beyond 64 bits
    real,
    text,
    bytes,
    list,
    tuple,
    set,
    dict,
    tensor,
    global, ///< a class, function or dtype, by its name
    object
  };
  struct Node;

  PythonValue(); ///< None
  explicit PythonValue(std::shared_ptr<const Node> node);

  static PythonValue boolean(bool value);
  static PythonValue integer(std::int64_t value);
  static PythonValue real(double value);
  static PythonValue text(std::string value);
  static PythonValue bytes(std::string value);
  static PythonValue list(std::vector<PythonValue> items);
  static PythonValue tuple(std::vector<PythonValue> items);
  using Entry = std::pair<PythonValue, PythonValue>;
  static PythonValue dict(std::vector<Entry> entries);
  using Member = std::pair<std::string, PythonValue>;
  static PythonValue dict_of(std::vector<Member> members);
  static PythonValue tensor(const at::Tensor& value);
  /// Loaded when it is read or written. Where the same value stands twice in
  /// another one, Python sees two names of one tensor.
  static PythonValue tensor(LazyTensor value);
  /// Of one dimension: the elements of all pieces, which are of that type, one
  /// after the other. It may be larger than memory: pieces are written singly.
  static PythonValue flat_tensor(
      at::ScalarType type,
      std::vector<LazyTensor> pieces);
  static PythonValue global(std::string module, std::string name);
  /// An instance of a class, with these attributes.
  static PythonValue object(
      std::string module,
      std::string name,
      std::vector<Member> members);
  /// What a call gives, for example `torch.Size((2, 3))`.
  static PythonValue call(
      std::string module,
      std::string name,
      std::vector<PythonValue> arguments);

  Kind kind() const;
  bool is(Kind kind) const { return this->kind() == kind; }
  bool is_none() const { return is(Kind::none); }

  // Each throws CheckpointError if the value is of another kind.
  bool boolean() const;
  std::int64_t integer() const;
  double real() const;             ///< an integer counts as well
  const std::string& text() const; ///< UTF-8
  const std::string& bytes() const;
  /// Of a list, tuple, set, or of an object's arguments.
  std::vector<PythonValue> items() const;
  std::vector<Entry> entries() const; ///< of a dict, in its order
  /// A copy of its own.
  at::Tensor tensor() const;
  /// Of a file, its own memory where that can be: not to be written to.
  at::Tensor borrowed_tensor() const;
  /// Some of its elements, in order and flat; of a file, only those are read,
  /// and not to be written to.
  at::Tensor elements(std::int64_t begin, std::int64_t count) const;
  /// Without reading the elements.
  const StoredTensor& stored() const;
  /// "module.name" of a global or of an object's class.
  std::string type_name() const;
  /// Of an object, as it was given to __setstate__; None without.
  PythonValue state() const;
  /// A big integer in decimal.
  std::string decimal() const;

  std::size_t size() const; ///< of items() or entries()
  /// Of a dict with text keys, or an object whose state is one.
  std::optional<PythonValue> find(std::string_view key) const;
  /// The same; a missing key is a CheckpointError that lists what is there.
  PythonValue at(std::string_view key) const;

  /// For people: one line per value, to some depth.
  std::string describe(int depth = 4) const;

  const Node& node() const { return *node_; }
  const std::shared_ptr<const Node>& shared() const { return node_; }

 private:
  PythonValue child(const Node* node) const;
  [[noreturn]] void refuse(std::string_view wanted) const;

  std::shared_ptr<const Node> node_;
};

} // namespace cairn::checkpoints
