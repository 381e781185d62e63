#include "checkpoints/pickle/python_objects.h"

#include "base/internal/utf8.h"
#include "checkpoints/tensors/tensor_bytes.h"
#include "checkpoints/torch/torch_types.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

namespace cairn::checkpoints {

namespace {

using Kind = PythonValue::Kind;
using Node = PythonValue::Node;

[[noreturn]] void unfit(const Node& callable) {
  throw CheckpointError(
      {.what = "a damaged pickle",
       .values = fmt::format(
           "{} is called with arguments that do not fit",
           dotted(callable.text))});
}

/// Argument `i`, which must be of that kind.
const Node& argument(
    const Node& callable,
    const Node& arguments,
    std::size_t i,
    Kind kind) {
  if (i >= arguments.items.size() || arguments.items[i]->kind != kind) {
    unfit(callable);
  }
  return *arguments.items[i];
}

std::vector<std::int64_t> integers(const Node& callable, const Node& tuple) {
  std::vector<std::int64_t> result;
  for (const Node* item : tuple.items) {
    if (item->kind != Kind::integer) {
      unfit(callable);
    }
    result.push_back(item->number);
  }
  return result;
}

/// Bytes from text: protocol 2 writes them as text of the code points 0 to 255.
std::string latin1(const Node& callable, const std::string& utf8) {
  std::string result;
  const char* const end = utf8.data() + utf8.size();
  for (const char* at = utf8.data(); at != end;) {
    const Utf8Char c = decode_utf8(at, end);
    if (!c.valid() || c.code_point > 0xff) {
      unfit(callable);
    }
    result += static_cast<char>(c.code_point);
    at += c.length;
  }
  return result;
}

Node* make_dict(PythonNodes& nodes, const Node& arguments) {
  Node& dict = nodes.add(Kind::dict);
  // Old protocols hand over a list of pairs.
  if (arguments.items.size() == 1 && arguments.items[0]->kind == Kind::list) {
    for (const Node* pair : arguments.items[0]->items) {
      if (pair->items.size() == 2) {
        dict.items.insert(
            dict.items.end(),
            pair->items.begin(),
            pair->items.end());
      }
    }
  }
  return &dict;
}

Node* make_collection(
    PythonNodes& nodes,
    const Node& callable,
    const Node& arguments,
    Kind kind) {
  Node& made = nodes.add(kind);
  if (!arguments.items.empty()) {
    const Node& from = *arguments.items[0];
    if (from.kind != Kind::list && from.kind != Kind::tuple &&
        from.kind != Kind::set) {
      unfit(callable);
    }
    made.items = from.items;
  }
  return &made;
}

Node* make_bytes(
    PythonNodes& nodes,
    const Node& callable,
    const Node& arguments) {
  Node& made = nodes.add(Kind::bytes);
  if (!arguments.items.empty()) {
    const Node& from = *arguments.items[0];
    if (from.kind != Kind::text && from.kind != Kind::bytes) {
      unfit(callable);
    }
    made.text =
        from.kind == Kind::text ? latin1(callable, from.text) : from.text;
  }
  return &made;
}

/// The place of a tensor's elements, from the arguments of its call: (storage,
/// offset, size, stride, …).
std::shared_ptr<TensorBytes> rebuilt_bytes(
    const Node& callable,
    const Node& arguments) {
  const Node& storage = argument(callable, arguments, 0, Kind::object);
  if (!storage.bytes) {
    unfit(callable);
  }
  auto bytes = std::make_shared<TensorBytes>(*storage.bytes);
  StoredTensor& place = bytes->place;
  place.offset = argument(callable, arguments, 1, Kind::integer).number;
  place.sizes =
      integers(callable, argument(callable, arguments, 2, Kind::tuple));
  place.strides =
      integers(callable, argument(callable, arguments, 3, Kind::tuple));
  return bytes;
}

Node* make_tensor(PythonNodes& nodes, std::shared_ptr<TensorBytes> bytes) {
  check(*bytes);
  Node& tensor = nodes.add(Kind::tensor);
  tensor.bytes = std::move(bytes);
  return &tensor;
}

/// A tensor whose storage is plain bytes: argument 6 is the dtype.
Node* make_typed_tensor(
    PythonNodes& nodes,
    const Node& callable,
    const Node& arguments) {
  std::shared_ptr<TensorBytes> bytes = rebuilt_bytes(callable, arguments);
  const Node& dtype = argument(callable, arguments, 6, Kind::global);
  const auto type = type_of_dtype(
      std::string_view(dtype.text)
          .substr(std::min(dtype.text.size(), dtype.text.find('\n') + 1)));
  if (!type) {
    throw CheckpointError(
        {.what = "a tensor of a type that is not supported",
         .values = dotted(dtype.text)});
  }
  bytes->place.type = *type;
  return make_tensor(nodes, std::move(bytes));
}

/// The element type of a numpy.dtype object, if a tensor can have it.
std::optional<at::ScalarType> numpy_type(const Node& dtype) {
  if (dtype.kind != Kind::object || dtype.items.empty() ||
      dtype.items[0]->kind != Kind::text) {
    return std::nullopt;
  }
  const Node* state = dtype.state;
  const bool swapped = state != nullptr && state->items.size() > 1 &&
      state->items[1]->kind == Kind::text && state->items[1]->text == ">";
  return swapped ? std::nullopt : type_of_numpy(dtype.items[0]->text);
}

template <typename Number>
Number from_bytes(const std::string& bytes) {
  Number value{};
  std::memcpy(&value, bytes.data(), std::min(bytes.size(), sizeof value));
  return value;
}

/// A numpy scalar, such as numpy.int64(3).
Node* make_scalar(PythonNodes& nodes, const Node& arguments) {
  if (arguments.items.size() != 2 || arguments.items[1]->kind != Kind::bytes) {
    return nullptr;
  }
  const auto type = numpy_type(*arguments.items[0]);
  const std::string& bytes = arguments.items[1]->text;
  if (!type || bytes.size() != c10::elementSize(*type)) {
    return nullptr;
  }
  const auto integer = [&](std::int64_t value) {
    Node& made = nodes.add(Kind::integer);
    made.number = value;
    return &made;
  };
  const auto real = [&](double value) {
    Node& made = nodes.add(Kind::real);
    made.real = value;
    return &made;
  };
  switch (*type) {
    case at::kLong:
      return integer(from_bytes<std::int64_t>(bytes));
    case at::kInt:
      return integer(from_bytes<std::int32_t>(bytes));
    case at::kShort:
      return integer(from_bytes<std::int16_t>(bytes));
    case at::kChar:
      return integer(from_bytes<std::int8_t>(bytes));
    case at::kByte:
      return integer(from_bytes<std::uint8_t>(bytes));
    case at::kUInt16:
      return integer(from_bytes<std::uint16_t>(bytes));
    case at::kUInt32:
      return integer(from_bytes<std::uint32_t>(bytes));
    case at::kDouble:
      return real(from_bytes<double>(bytes));
    case at::kFloat:
      return real(from_bytes<float>(bytes));
    case at::kBool: {
      Node& made = nodes.add(Kind::boolean);
      made.number = bytes[0] != 0 ? 1 : 0;
      return &made;
    }
    default:
      return nullptr;
  }
}

/// Makes an array of its state: (version, shape, dtype, is_fortran, bytes).
void become_array(Node& object, const Node& state) {
  if (state.items.size() != 5 || state.items[1]->kind != Kind::tuple ||
      state.items[4]->kind != Kind::bytes ||
      state.items[3]->kind != Kind::boolean) {
    return;
  }
  const auto type = numpy_type(*state.items[2]);
  if (!type) {
    return;
  }
  auto bytes = std::make_shared<TensorBytes>();
  bytes->place.type = *type;
  bytes->place.storage = "numpy";
  bytes->place.sizes = integers(*object.type, *state.items[1]);
  const std::string& data = state.items[4]->text;
  bytes->storage = std::as_bytes(std::span(data));
  // Fortran's order is C's order with the axes reversed.
  std::vector<std::int64_t>& sizes = bytes->place.sizes;
  std::vector<std::int64_t>& strides = bytes->place.strides;
  strides.assign(sizes.size(), 1);
  const bool fortran = state.items[3]->number != 0;
  std::int64_t stride = 1;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::size_t axis = fortran ? i : sizes.size() - 1 - i;
    strides[axis] = stride;
    if (__builtin_mul_overflow(
            stride,
            std::max<std::int64_t>(1, sizes[axis]),
            &stride)) {
      unfit(*object.type);
    }
  }
  check(*bytes);
  object.kind = Kind::tensor;
  object.bytes = std::move(bytes);
}

bool is_array(const Node& object) {
  return object.kind == Kind::object && object.type != nullptr &&
      (object.type->text == "numpy.core.multiarray\n_reconstruct" ||
       object.type->text == "numpy._core.multiarray\n_reconstruct");
}

Node* record(PythonNodes& nodes, const Node& callable, const Node& arguments) {
  Node& object = nodes.add(Kind::object);
  object.type = &callable;
  object.items = arguments.items;
  return &object;
}

} // namespace

Node* call(PythonNodes& nodes, const Node& callable, const Node& arguments) {
  if (callable.kind != Kind::global || arguments.kind != Kind::tuple) {
    throw CheckpointError(
        {.what = "a damaged pickle",
         .values = "something is called that is no name"});
  }
  const std::string_view name = callable.text;
  if (name == "collections\nOrderedDict" ||
      name == "collections\ndefaultdict" || name == "builtins\ndict" ||
      name == "__builtin__\ndict") {
    return make_dict(nodes, arguments);
  }
  if (name == "torch\nSize") {
    return make_collection(nodes, callable, arguments, Kind::tuple);
  }
  if (name == "builtins\nset" || name == "__builtin__\nset" ||
      name == "builtins\nfrozenset" || name == "__builtin__\nfrozenset") {
    return make_collection(nodes, callable, arguments, Kind::set);
  }
  if (name == "_codecs\nencode" || name == "builtins\nbytes" ||
      name == "__builtin__\nbytes" || name == "builtins\nbytearray" ||
      name == "__builtin__\nbytearray") {
    return make_bytes(nodes, callable, arguments);
  }
  if (name == "torch._utils\n_rebuild_tensor" ||
      name == "torch._utils\n_rebuild_tensor_v2") {
    return make_tensor(nodes, rebuilt_bytes(callable, arguments));
  }
  if (name == "torch._utils\n_rebuild_tensor_v3") {
    return make_typed_tensor(nodes, callable, arguments);
  }
  if (name == "torch._utils\n_rebuild_parameter" ||
      name == "torch._utils\n_rebuild_parameter_with_state") {
    return const_cast<Node*>(&argument(callable, arguments, 0, Kind::tensor));
  }
  if (name == "torch._tensor\n_rebuild_from_type_v2") {
    const Node& builder = argument(callable, arguments, 0, Kind::global);
    if (builder.text == name) {
      unfit(callable); // the call would never end
    }
    return call(nodes, builder, argument(callable, arguments, 2, Kind::tuple));
  }
  if (name == "numpy.core.multiarray\nscalar" ||
      name == "numpy._core.multiarray\nscalar") {
    if (Node* scalar = make_scalar(nodes, arguments)) {
      return scalar;
    }
  }
  return record(nodes, callable, arguments);
}

void set_state(Node& object, const Node& state) {
  if (is_array(object)) {
    become_array(object, state);
  }
  if (object.kind == Kind::object) {
    object.state = &state;
  }
  // Attributes of a dict or tensor are not kept.
}

} // namespace cairn::checkpoints
