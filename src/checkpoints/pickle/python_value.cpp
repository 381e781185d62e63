#include <cairn/checkpoints/python_value.h>

#include "base/internal/utf8.h"
#include "checkpoints/pickle/python_node.h"
#include "checkpoints/tensors/tensor_bytes.h"

#include <ATen/Functions.h>
#include <c10/util/accumulate.h>
#include <c10/util/strides.h>
#include <cairn/base/error.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

namespace cairn::checkpoints {

namespace {

using Kind = PythonValue::Kind;
using Node = PythonValue::Node;
using Shape = std::vector<std::int64_t>;

std::string_view name_of(Kind kind) {
  constexpr std::array<std::string_view, 14> names{
      "None",
      "bool",
      "int",
      "int of more than 64 bits",
      "float",
      "str",
      "bytes",
      "list",
      "tuple",
      "set",
      "dict",
      "tensor",
      "name",
      "object"};
  return names[static_cast<std::size_t>(kind)];
}

PythonValue made(Node node) {
  return PythonValue(std::make_shared<const Node>(std::move(node)));
}

/// Adds children to a node, with their owners.
void adopt(Node& node, const std::vector<PythonValue>& children) {
  for (const PythonValue& child : children) {
    node.items.push_back(&child.node());
    node.owners.push_back(child.shared());
  }
}

PythonValue container(Kind kind, const std::vector<PythonValue>& items) {
  Node node{.kind = kind};
  adopt(node, items);
  return made(std::move(node));
}

/// Divides a big number by 10 in place; returns the remainder, which is a
/// digit.
unsigned divide_by_ten(std::vector<unsigned char>& big_endian) {
  unsigned rest = 0;
  for (unsigned char& byte : big_endian) {
    const unsigned value = rest * 256 + byte;
    byte = static_cast<unsigned char>(value / 10);
    rest = value % 10;
  }
  return rest;
}

} // namespace

std::string dotted(const std::string& global) {
  std::string name = global;
  std::ranges::replace(name, '\n', '.');
  return name;
}

Node& PythonNodes::add(Kind kind) {
  if (nodes_.size() >= most_) {
    throw CheckpointError(
        {.what = "holds too many values",
         .values = fmt::format("more than {}", most_)});
  }
  nodes_.emplace_back().kind = kind;
  return nodes_.back();
}

PythonValue::PythonValue() : node_(std::make_shared<const Node>()) {}

PythonValue::PythonValue(std::shared_ptr<const Node> node)
    : node_(std::move(node)) {}

PythonValue PythonValue::boolean(bool value) {
  return made({.kind = Kind::boolean, .number = value ? 1 : 0});
}

PythonValue PythonValue::integer(std::int64_t value) {
  return made({.kind = Kind::integer, .number = value});
}

PythonValue PythonValue::real(double value) {
  return made({.kind = Kind::real, .real = value});
}

PythonValue PythonValue::text(std::string value) {
  return made({.kind = Kind::text, .text = std::move(value)});
}

PythonValue PythonValue::bytes(std::string value) {
  return made({.kind = Kind::bytes, .text = std::move(value)});
}

PythonValue PythonValue::list(std::vector<PythonValue> items) {
  return container(Kind::list, items);
}

PythonValue PythonValue::tuple(std::vector<PythonValue> items) {
  return container(Kind::tuple, items);
}

PythonValue PythonValue::dict(std::vector<Entry> entries) {
  std::vector<PythonValue> flat;
  for (Entry& entry : entries) {
    flat.push_back(std::move(entry.first));
    flat.push_back(std::move(entry.second));
  }
  return container(Kind::dict, flat);
}

PythonValue PythonValue::dict_of(std::vector<Member> members) {
  std::vector<Entry> entries;
  for (Member& member : members) {
    entries.emplace_back(
        text(std::move(member.first)),
        std::move(member.second));
  }
  return dict(std::move(entries));
}

PythonValue PythonValue::tensor(const at::Tensor& value) {
  if (!value.defined() || value.layout() != at::kStrided) {
    throw CheckpointError({.what = "a tensor without plain elements"});
  }
  const at::Tensor plain = value.detach().resolve_conj().resolve_neg();
  auto made_tensor = std::make_shared<MadeTensor>();
  made_tensor->place = {
      .type = plain.scalar_type(),
      .sizes = plain.sizes().vec(),
      .strides = plain.strides().vec(),
      .offset = plain.storage_offset(),
      .storage =
          fmt::format("{}", fmt::ptr(plain.storage().unsafeGetStorageImpl()))};
  made_tensor->tensor = plain;
  return made({.kind = Kind::tensor, .made = std::move(made_tensor)});
}

namespace {

PythonValue lazy(
    at::ScalarType type,
    Shape shape,
    std::vector<LazyTensor> pieces) {
  const auto strides = c10::contiguous_strides(shape);
  auto made_tensor = std::make_shared<MadeTensor>();
  made_tensor->place = {
      .type = type,
      .sizes = std::move(shape),
      .strides = {strides.begin(), strides.end()},
      .storage = fmt::format("{}", fmt::ptr(made_tensor.get()))};
  made_tensor->pieces = std::move(pieces);
  return made({.kind = Kind::tensor, .made = std::move(made_tensor)});
}

} // namespace

PythonValue PythonValue::tensor(LazyTensor value) {
  const at::ScalarType type = value.type;
  Shape shape = value.shape;
  return lazy(type, std::move(shape), {std::move(value)});
}

PythonValue PythonValue::flat_tensor(
    at::ScalarType type,
    std::vector<LazyTensor> pieces) {
  std::int64_t elements = 0;
  for (const LazyTensor& piece : pieces) {
    if (piece.type != type) {
      throw InternalError({.what = "a flat tensor of several types"});
    }
    elements += c10::multiply_integers(piece.shape);
  }
  return lazy(type, {elements}, std::move(pieces));
}

PythonValue PythonValue::global(std::string module, std::string name) {
  return made(
      {.kind = Kind::global,
       .text = std::move(module) + "\n" + std::move(name)});
}

PythonValue PythonValue::object(
    std::string module,
    std::string name,
    std::vector<Member> members) {
  return object_of_state(
      std::move(module),
      std::move(name),
      dict_of(std::move(members)));
}

PythonValue PythonValue::object_of_state(
    std::string module,
    std::string name,
    const PythonValue& state) {
  const PythonValue type = global(std::move(module), std::move(name));
  return made(
      {.kind = Kind::object,
       .type = type.node_.get(),
       .state = state.node_.get(),
       .by_new = true,
       .owners = {type.node_, state.node_}});
}

PythonValue PythonValue::call(
    std::string module,
    std::string name,
    std::vector<PythonValue> arguments) {
  const PythonValue type = global(std::move(module), std::move(name));
  Node node{
      .kind = Kind::object,
      .type = type.node_.get(),
      .owners = {type.node_}};
  adopt(node, arguments);
  return made(std::move(node));
}

PythonValue PythonValue::child(const Node* node) const {
  // The child lives as long as this value's root.
  return PythonValue(std::shared_ptr<const Node>(node_, node));
}

void PythonValue::refuse(std::string_view wanted) const {
  throw CheckpointError(
      {.what = fmt::format("{} is wanted, not {}", wanted, name_of(kind())),
       .values = describe(0)});
}

PythonValue::Kind PythonValue::kind() const {
  return node_->kind;
}

bool PythonValue::boolean() const {
  if (!is(Kind::boolean)) {
    refuse("a bool");
  }
  return node_->number != 0;
}

std::int64_t PythonValue::integer() const {
  if (!is(Kind::integer)) {
    refuse("an int of 64 bits");
  }
  return node_->number;
}

double PythonValue::real() const {
  if (is(Kind::integer)) {
    return static_cast<double>(node_->number);
  }
  if (!is(Kind::real)) {
    refuse("a number");
  }
  return node_->real;
}

const std::string& PythonValue::text() const {
  if (!is(Kind::text)) {
    refuse("a str");
  }
  return node_->text;
}

const std::string& PythonValue::bytes() const {
  if (!is(Kind::bytes)) {
    refuse("bytes");
  }
  return node_->text;
}

std::vector<PythonValue> PythonValue::items() const {
  if (!is(Kind::list) && !is(Kind::tuple) && !is(Kind::set) &&
      !is(Kind::object)) {
    refuse("a list, tuple or set");
  }
  std::vector<PythonValue> result;
  for (const Node* item : node_->items) {
    result.push_back(child(item));
  }
  return result;
}

std::vector<PythonValue::Entry> PythonValue::entries() const {
  if (!is(Kind::dict)) {
    refuse("a dict");
  }
  std::vector<Entry> result;
  for (std::size_t i = 0; i + 1 < node_->items.size(); i += 2) {
    result.emplace_back(child(node_->items[i]), child(node_->items[i + 1]));
  }
  return result;
}

at::Tensor PythonValue::tensor() const {
  if (!is(Kind::tensor)) {
    refuse("a tensor");
  }
  return node_->bytes ? load(*node_->bytes) : load(*node_->made);
}

at::Tensor PythonValue::borrowed_tensor() const {
  return is(Kind::tensor) && node_->bytes ? borrowed(*node_->bytes) : tensor();
}

at::Tensor PythonValue::elements(std::int64_t begin, std::int64_t count) const {
  const StoredTensor& place = stored();
  const std::int64_t all = c10::multiply_integers(place.sizes);
  if (begin < 0 || count < 0 || count > all || begin > all - count) {
    throw CheckpointError(
        {.what = "a tensor has too few elements",
         .values = fmt::format("{} to {} of {}", begin, begin + count, all)});
  }
  const auto strides = c10::contiguous_strides(place.sizes);
  if (node_->bytes && std::ranges::equal(place.strides, strides)) {
    TensorBytes part = *node_->bytes;
    part.place.offset += begin;
    part.place.sizes = {count};
    part.place.strides = {1};
    return borrowed(part);
  }
  return tensor().contiguous().view({-1}).narrow(0, begin, count);
}

const StoredTensor& PythonValue::stored() const {
  if (!is(Kind::tensor)) {
    refuse("a tensor");
  }
  return node_->bytes ? node_->bytes->place : node_->made->place;
}

std::string PythonValue::type_name() const {
  if (is(Kind::global)) {
    return dotted(node_->text);
  }
  if (!is(Kind::object)) {
    refuse("an object or a name");
  }
  return dotted(node_->type->text);
}

PythonValue PythonValue::state() const {
  if (!is(Kind::object)) {
    refuse("an object");
  }
  return node_->state == nullptr ? PythonValue() : child(node_->state);
}

std::string PythonValue::decimal() const {
  if (is(Kind::integer)) {
    return std::to_string(node_->number);
  }
  if (!is(Kind::big_integer)) {
    refuse("an int");
  }
  std::vector<unsigned char> digits(
      node_->text.rbegin(),
      node_->text.rend()); // most significant first
  const bool negative = !digits.empty() && (digits.front() & 0x80) != 0;
  if (negative) { // two's complement
    unsigned carry = 1;
    for (auto byte = digits.rbegin(); byte != digits.rend(); ++byte) {
      const unsigned value = (~*byte & 0xFFU) + carry;
      *byte = static_cast<unsigned char>(value);
      carry = value >> 8;
    }
  }
  std::string result;
  while (std::ranges::any_of(digits, [](unsigned char b) { return b != 0; })) {
    result += static_cast<char>('0' + divide_by_ten(digits));
  }
  result += negative ? "-" : "";
  std::ranges::reverse(result);
  return result.empty() ? "0" : result;
}

std::size_t PythonValue::size() const {
  return is(Kind::dict) ? node_->items.size() / 2 : node_->items.size();
}

std::optional<PythonValue> PythonValue::find(std::string_view key) const {
  const Node* node = node_.get();
  if (node->kind == Kind::object && node->state != nullptr) {
    node = node->state;
  }
  if (node->kind != Kind::dict) {
    refuse("a dict");
  }
  // Search from the end: of equal keys Python keeps the last.
  for (std::size_t i = node->items.size(); i >= 2; i -= 2) {
    if (node->items[i - 2]->kind == Kind::text &&
        node->items[i - 2]->text == key) {
      return child(node->items[i - 1]);
    }
  }
  return std::nullopt;
}

PythonValue PythonValue::at(std::string_view key) const {
  if (auto found = find(key)) {
    return *std::move(found);
  }
  const PythonValue dict = is(Kind::object) ? state() : *this;
  std::vector<std::string> there;
  for (const Entry& entry : dict.entries()) {
    if (there.size() == 20) {
      there.emplace_back("…");
      break;
    }
    there.push_back(entry.first.describe(0));
  }
  throw CheckpointError(
      {.what = fmt::format("\"{}\" is missing", key),
       .values = fmt::format("there are {}", fmt::join(there, ", "))});
}

namespace {

std::string shortened(const std::string& text) {
  constexpr std::size_t most = 60;
  if (text.size() <= most) {
    return text;
  }
  return text.substr(0, character_start(text, most)) + "…";
}

std::string describe_tensor(const StoredTensor& tensor) {
  return fmt::format(
      "tensor {} [{}]",
      c10::toString(tensor.type),
      fmt::join(tensor.sizes, ", "));
}

void describe_into(
    std::string& out,
    const PythonValue& value,
    int depth,
    int indent);

void describe_members(
    std::string& out,
    const PythonValue& value,
    int depth,
    int indent) {
  constexpr std::size_t most = 100;
  const std::string margin(static_cast<std::size_t>(indent + 1) * 2, ' ');
  std::size_t shown = 0;
  const auto more = [&](std::size_t all) {
    if (shown < most) {
      return ++shown, true;
    }
    out += fmt::format("\n{}… {} in all", margin, all);
    return false;
  };
  if (value.is(Kind::dict)) {
    for (const auto& [key, member] : value.entries()) {
      if (!more(value.size())) {
        return;
      }
      out += fmt::format("\n{}{}: ", margin, key.describe(0));
      describe_into(out, member, depth - 1, indent + 1);
    }
    return;
  }
  for (const PythonValue& item : value.items()) {
    if (!more(value.size())) {
      return;
    }
    out += fmt::format("\n{}- ", margin);
    describe_into(out, item, depth - 1, indent + 1);
  }
}

void describe_into(
    std::string& out,
    const PythonValue& value,
    int depth,
    int indent) {
  switch (value.kind()) {
    case Kind::none:
      out += "None";
      break;
    case Kind::boolean:
      out += value.boolean() ? "True" : "False";
      break;
    case Kind::integer:
      out += std::to_string(value.integer());
      break;
    case Kind::big_integer:
      out += shortened(value.decimal());
      break;
    case Kind::real:
      out += fmt::format("{}", value.real());
      break;
    case Kind::text:
      out += fmt::format("\"{}\"", shortened(value.text()));
      break;
    case Kind::bytes:
      out += fmt::format("{} bytes", value.bytes().size());
      break;
    case Kind::tensor:
      out += describe_tensor(value.stored());
      break;
    case Kind::global:
      out += value.type_name();
      break;
    case Kind::object:
      out += value.type_name();
      if (depth > 0 && value.state().is(Kind::dict)) {
        describe_members(out, value.state(), depth, indent);
      }
      break;
    case Kind::list:
    case Kind::tuple:
    case Kind::set:
    case Kind::dict:
      out += fmt::format("{} of {}", name_of(value.kind()), value.size());
      if (depth > 0) {
        describe_members(out, value, depth, indent);
      }
      break;
  }
}

} // namespace

std::string PythonValue::describe(int depth) const {
  std::string out;
  describe_into(out, *this, depth, 0);
  return out;
}

} // namespace cairn::checkpoints
