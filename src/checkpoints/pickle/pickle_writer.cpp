#include "checkpoints/pickle/pickle_writer.h"

#include "checkpoints/pickle/python_node.h"
#include "checkpoints/torch/torch_types.h"

#include <c10/util/accumulate.h>
#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstdint>
#include <limits>
#include <map>
#include <string_view>
#include <utility>

namespace cairn::checkpoints {

namespace {

using Kind = PythonValue::Kind;
using Node = PythonValue::Node;

constexpr int deepest = 500;

class Writer {
 public:
  Pickled run(const PythonValue& value) {
    op('\x80').number(std::uint8_t{2});
    write(value.node(), 0);
    op('.');
    return std::move(result_);
  }

 private:
  Writer& op(char opcode) {
    result_.bytes += opcode;
    return *this;
  }
  template <std::integral Number>
  Writer& number(Number value) {
    result_.bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Writer& global(std::string_view module, std::string_view name) {
    result_.bytes += fmt::format("c{}\n{}\n", module, name);
    return *this;
  }

  void write(const Node& node, int depth) {
    if (depth > deepest) {
      throw CheckpointError(
          {.what = "a value that contains itself, or is nested too deeply"});
    }
    switch (node.kind) {
      case Kind::none:
        op('N');
        break;
      case Kind::boolean:
        op(node.number != 0 ? '\x88' : '\x89');
        break;
      case Kind::integer:
        integer(node.number);
        break;
      case Kind::big_integer:
        op('\x8b').number(static_cast<std::uint32_t>(node.text.size()));
        result_.bytes += node.text;
        break;
      case Kind::real:
        real(node.real);
        break;
      case Kind::text:
        text(node.text);
        break;
      case Kind::bytes:
        bytes(node.text);
        break;
      case Kind::list:
        op(']');
        items(node, 'e', depth);
        break;
      case Kind::tuple:
        op('(');
        each(node, depth);
        op('t');
        break;
      case Kind::set:
        global("builtins", "set").op(']');
        items(node, 'e', depth);
        op('\x85').op('R');
        break;
      case Kind::dict:
        op('}');
        items(node, 'u', depth);
        break;
      case Kind::tensor:
        tensor(node);
        break;
      case Kind::global:
        result_.bytes += "c" + node.text + "\n";
        break;
      case Kind::object:
        object(node, depth);
        break;
    }
  }

  void each(const Node& node, int depth) {
    for (const Node* item : node.items) {
      write(*item, depth + 1);
    }
  }
  void items(const Node& node, char opcode, int depth) {
    if (!node.items.empty()) {
      op('(');
      each(node, depth);
      op(opcode);
    }
  }

  void integer(std::int64_t value) {
    if (value >= 0 && value < 256) {
      op('K').number(static_cast<std::uint8_t>(value));
    } else if (
        value >= std::numeric_limits<std::int32_t>::min() &&
        value <= std::numeric_limits<std::int32_t>::max()) {
      op('J').number(static_cast<std::int32_t>(value));
    } else {
      op('\x8a').number(std::uint8_t{8}).number(value);
    }
  }
  void real(double value) {
    op('G');
    const auto bits = std::bit_cast<std::uint64_t>(value);
    for (int shift = 56; shift >= 0; shift -= 8) {
      result_.bytes += static_cast<char>(bits >> shift & 0xFF);
    }
  }
  void text(std::string_view value) {
    op('X').number(static_cast<std::uint32_t>(value.size()));
    result_.bytes += value;
  }
  /// Writes bytes, which protocol 2 does not have: as text of the code points 0
  /// to 255, with a call that encodes it.
  void bytes(std::string_view value) {
    std::string utf8;
    for (const char c : value) {
      const auto code = static_cast<unsigned char>(c);
      if (code >= 0x80) {
        utf8 += static_cast<char>(0xC0 | code >> 6);
      }
      utf8 += static_cast<char>(code < 0x80 ? code : 0x80 | (code & 0x3F));
    }
    global("_codecs", "encode");
    text(utf8);
    text("latin1");
    op('\x86').op('R');
  }
  void object(const Node& node, int depth) {
    write(*node.type, depth + 1);
    op('(');
    each(node, depth);
    op('t').op(node.by_new ? '\x81' : 'R');
    if (node.state != nullptr) {
      write(*node.state, depth + 1);
      op('b');
    }
  }

  void integers(at::IntArrayRef values) {
    op('(');
    for (const std::int64_t value : values) {
      integer(value);
    }
    op('t');
  }

  void tensor(const Node& node) {
    const StoredTensor& place =
        node.bytes ? node.bytes->place : node.made->place;
    const std::string_view storage_class = storage_of(place.type);
    const std::string_view dtype = dtype_of(place.type);
    if (dtype.empty()) {
      throw CheckpointError(
          {.what = "a tensor of a type that is not supported",
           .values = c10::toString(place.type)});
    }
    const bool own_class = !storage_class.empty();
    global(
        "torch._utils",
        own_class ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3");
    op('(').op('(');
    text("storage");
    if (own_class) {
      global("torch", storage_class);
    } else {
      global("torch.storage", "UntypedStorage");
    }
    const PickledStorage& stored = storage(node);
    text(std::to_string(stored.number));
    text("cpu");
    const std::size_t width = own_class ? c10::elementSize(place.type) : 1;
    integer(static_cast<std::int64_t>(stored.bytes / width));
    op('t').op('Q');
    integer(place.offset);
    integers(place.sizes);
    integers(place.strides);
    op('\x89'); // requires_grad
    global("collections", "OrderedDict").op(')').op('R');
    if (!own_class) {
      global("torch", dtype);
    }
    op('t').op('R');
  }

  /// The storage of a tensor. The same memory, here or in a file, is one
  /// storage.
  const PickledStorage& storage(const Node& node) {
    const void* memory = node.made.get();
    std::size_t bytes = 0;
    if (node.bytes) {
      memory = node.bytes->storage.data();
      bytes = node.bytes->storage.size();
    } else if (node.made->tensor.defined()) {
      const at::Storage& own = node.made->tensor.storage();
      memory = own.unsafeGetStorageImpl();
      bytes = own.nbytes();
    } else {
      bytes = c10::elementSize(node.made->place.type) *
          static_cast<std::size_t>(
                  c10::multiply_integers(node.made->place.sizes));
    }
    const auto [place, is_new] =
        numbers_.emplace(std::pair(memory, bytes), result_.storages.size());
    if (is_new) {
      result_.storages.push_back({place->second, bytes, &node});
    }
    return result_.storages[place->second];
  }

  Pickled result_;
  std::map<std::pair<const void*, std::size_t>, std::size_t> numbers_;
};

} // namespace

Pickled write_pickle(const PythonValue& value) {
  return Writer().run(value);
}

} // namespace cairn::checkpoints
