#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/checkpoints/lazy_tensor.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::checkpoints {

/// The place of a tensor's elements.
struct StoredTensor {
  at::ScalarType type = at::kFloat;
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;
  std::int64_t offset = 0; ///< in elements
  std::string storage;     ///< tensors of one storage share memory in Python
};

/// A value of Python's pickle, as data: none of it is ever run. An instance of
/// an unknown class is a record of its name, arguments and state.
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
  /// A tensor that is loaded when it is read or written. Where this value
  /// occurs twice in another value, Python sees two names of one tensor.
  static PythonValue tensor(LazyTensor value);
  /// A tensor of one dimension: the elements of all pieces (of that type), one
  /// after the other. It may be larger than memory: pieces are written one by
  /// one.
  static PythonValue flat_tensor(
      at::ScalarType type,
      std::vector<LazyTensor> pieces);
  static PythonValue global(std::string module, std::string name);
  /// An instance of a class, with these attributes.
  static PythonValue object(
      std::string module,
      std::string name,
      std::vector<Member> members);
  /// An instance of a class, with a state for its __setstate__.
  static PythonValue object_of_state(
      std::string module,
      std::string name,
      const PythonValue& state);
  /// The result of a call, for example `torch.Size((2, 3))`.
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
  /// Items of a list, tuple or set, or arguments of an object.
  std::vector<PythonValue> items() const;
  std::vector<Entry> entries() const; ///< a dict's, in its order
  /// A copy of the tensor.
  at::Tensor tensor() const;
  /// The tensor, in the file's own memory where possible: not to be written to.
  at::Tensor borrowed_tensor() const;
  /// Some elements of a tensor, in order and flat. Only these are read from a
  /// file; they must not be written to.
  at::Tensor elements(std::int64_t begin, std::int64_t count) const;
  /// Place of the tensor's elements, without reading them.
  const StoredTensor& stored() const;
  /// "module.name" of a global or of an object's class.
  std::string type_name() const;
  /// State of an object, as it was given to __setstate__; None without one.
  PythonValue state() const;
  /// A big integer in decimal.
  std::string decimal() const;

  std::size_t size() const; ///< number of items() or entries()
  /// Value of a key in a dict with text keys, or in an object whose state is a
  /// dict.
  std::optional<PythonValue> find(std::string_view key) const;
  /// find() where a missing key is a CheckpointError that lists the keys.
  PythonValue at(std::string_view key) const;

  /// Text for people: one line per value, to some depth.
  std::string describe(int depth = 4) const;

  const Node& node() const { return *node_; }
  const std::shared_ptr<const Node>& shared() const { return node_; }

 private:
  PythonValue child(const Node* node) const;
  [[noreturn]] void refuse(std::string_view wanted) const;

  std::shared_ptr<const Node> node_;
};

} // namespace cairn::checkpoints
