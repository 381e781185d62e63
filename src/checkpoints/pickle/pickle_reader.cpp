#include "checkpoints/pickle/pickle_reader.h"

#include "checkpoints/pickle/python_objects.h"
#include "checkpoints/tensors/little_endian.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace cairn::checkpoints {

namespace {

using Kind = PythonValue::Kind;
using Node = PythonValue::Node;

constexpr std::size_t longest_integer = 4096; // bytes

/// Python's pickle machine: a stack with marks in it, and a memo.
class Machine {
 public:
  Machine(
      std::span<const std::byte> bytes,
      PythonNodes& nodes,
      const PersistentId& persistent)
      : bytes_(bytes), nodes_(nodes), persistent_(persistent) {}

  Unpickled run() {
    while (true) {
      const char opcode = static_cast<char>(number<std::uint8_t>());
      if (opcode == '.') {
        const Node* root = pop();
        return {root, at_};
      }
      if (!push_atom(opcode) && !build(opcode) && !remember(opcode)) {
        torn(fmt::format("unknown instruction 0x{:02x}", opcode));
      }
    }
  }

 private:
  [[noreturn]] void torn(std::string_view why) const {
    throw CheckpointError(
        {.what = "a damaged pickle",
         .values = fmt::format("{}, at byte {}", why, at_)});
  }

  // Bytes.

  std::span<const std::byte> take(std::uint64_t count) {
    if (count > bytes_.size() - at_) {
      torn("it ends early");
    }
    const auto part = bytes_.subspan(at_, count);
    at_ += count;
    return part;
  }
  template <typename Number>
  Number number() {
    return little_endian<Number>(take(sizeof(Number)), 0);
  }
  std::string text(std::uint64_t count) {
    const auto part = take(count);
    return {reinterpret_cast<const char*>(part.data()), part.size()};
  }
  std::string line() {
    std::string result;
    for (char c = next(); c != '\n'; c = next()) {
      result += c;
    }
    return result;
  }
  char next() { return static_cast<char>(number<std::uint8_t>()); }

  template <typename Number>
  Number parsed(std::string_view digits) {
    Number value{};
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size()) {
      torn("a number that is none");
    }
    return value;
  }

  // The stack.

  Node& push(Kind kind) {
    Node& node = nodes_.add(kind);
    stack_.push_back(&node);
    return node;
  }
  Node* pop() {
    if (stack_.size() <= floor()) {
      torn("its stack is empty");
    }
    Node* node = stack_.back();
    stack_.pop_back();
    return node;
  }
  Node& top(Kind kind, Kind other) {
    if (stack_.size() <= floor()) {
      torn("its stack is empty");
    }
    Node& node = *stack_.back();
    if (node.kind != kind && node.kind != other) {
      torn("a container is wanted");
    }
    return node;
  }
  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  /// Takes the values above the last mark.
  std::vector<const Node*> pop_to_mark() {
    if (marks_.empty()) {
      torn("no mark is set");
    }
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(floor());
    std::vector<const Node*> items(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return items;
  }

  void push_integer(std::int64_t value) { push(Kind::integer).number = value; }
  void push_text(Kind kind, std::uint64_t size) {
    std::string value = text(size);
    push(kind).text = std::move(value);
  }
  void push_long(std::uint64_t size) {
    if (size > longest_integer) {
      torn("an integer of thousands of bytes");
    }
    const std::string digits = text(size); // little endian, two's complement
    if (size > 8) {
      push(Kind::big_integer).text = digits;
      return;
    }
    std::uint64_t value = 0;
    for (std::size_t i = size; i > 0; --i) {
      value = value << 8 | static_cast<unsigned char>(digits[i - 1]);
    }
    if (size > 0 && size < 8 && (digits.back() & 0x80) != 0) {
      value |= ~std::uint64_t{0} << (8 * size);
    }
    push_integer(static_cast<std::int64_t>(value));
  }

  /// Pushes values that contain no others. False for another opcode.
  bool push_atom(char opcode) {
    switch (opcode) {
      case 'N':
        push(Kind::none);
        return true;
      case '\x88':
        push(Kind::boolean).number = 1;
        return true;
      case '\x89':
        push(Kind::boolean).number = 0;
        return true;
      case 'J':
        push_integer(number<std::int32_t>());
        return true;
      case 'K':
        push_integer(number<std::uint8_t>());
        return true;
      case 'M':
        push_integer(number<std::uint16_t>());
        return true;
      case '\x8a':
        push_long(number<std::uint8_t>());
        return true;
      case '\x8b':
        push_long(number<std::uint32_t>());
        return true;
      case 'I':
        push_old_integer(line());
        return true;
      case 'L': {
        std::string digits = line();
        if (digits.ends_with('L')) {
          digits.pop_back();
        }
        push_integer(parsed<std::int64_t>(digits));
        return true;
      }
      case 'F':
        push(Kind::real).real = parsed<double>(line());
        return true;
      case 'G':
        push_big_endian_double();
        return true;
      case 'V':
        push(Kind::text).text = line(); // rare: escapes are not decoded
        return true;
      case 'X':
        push_text(Kind::text, number<std::uint32_t>());
        return true;
      case '\x8c':
        push_text(Kind::text, number<std::uint8_t>());
        return true;
      case '\x8d':
        push_text(Kind::text, number<std::uint64_t>());
        return true;
      case 'T': // Python 2's str
        push_text(Kind::text, number<std::uint32_t>());
        return true;
      case 'U':
        push_text(Kind::text, number<std::uint8_t>());
        return true;
      case 'S':
        push_quoted(line());
        return true;
      case 'B':
        push_text(Kind::bytes, number<std::uint32_t>());
        return true;
      case 'C':
        push_text(Kind::bytes, number<std::uint8_t>());
        return true;
      case '\x8e':
      case '\x96':
        push_text(Kind::bytes, number<std::uint64_t>());
        return true;
      case 'c': {
        std::string module = line();
        push_global(std::move(module), line());
        return true;
      }
      default:
        return false;
    }
  }

  void push_old_integer(const std::string& digits) {
    if (digits == "00" || digits == "01") {
      push(Kind::boolean).number = digits == "01" ? 1 : 0;
      return;
    }
    push_integer(parsed<std::int64_t>(digits));
  }
  void push_big_endian_double() {
    std::uint64_t bits = 0;
    for (int i = 0; i < 8; ++i) {
      bits = bits << 8 | number<std::uint8_t>();
    }
    push(Kind::real).real = std::bit_cast<double>(bits);
  }
  void push_quoted(const std::string& quoted) {
    if (quoted.size() < 2 || quoted.front() != quoted.back()) {
      torn("a str without quotes");
    }
    push(Kind::text).text = quoted.substr(1, quoted.size() - 2);
  }
  void push_global(std::string module, std::string name) {
    push(Kind::global).text = std::move(module) + "\n" + std::move(name);
  }

  void append(Node& to, const std::vector<const Node*>& items) {
    to.items.insert(to.items.end(), items.begin(), items.end());
  }
  void require_pairs(const std::vector<const Node*>& items) const {
    if (items.size() % 2 != 0) {
      torn("a key without a value");
    }
  }
  void push_tuple(std::size_t size) {
    std::vector<const Node*> items(size);
    for (std::size_t i = size; i > 0; --i) {
      items[i - 1] = pop();
    }
    push(Kind::tuple).items = std::move(items);
  }
  void push_call(const Node& callable, const Node& arguments) {
    Node* made = call(nodes_, callable, arguments);
    made->by_new = false;
    stack_.push_back(made);
  }
  /// Makes an object as `callable.__new__` does.
  void push_new(const Node& callable, const Node& arguments) {
    push_call(callable, arguments);
    stack_.back()->by_new = true;
  }

  /// Builds containers and objects. False for another opcode.
  bool build(char opcode) {
    switch (opcode) {
      case '(':
        marks_.push_back(stack_.size());
        return true;
      case '0':
        if (!marks_.empty() && marks_.back() == stack_.size()) {
          marks_.pop_back();
        } else {
          pop();
        }
        return true;
      case '1':
        pop_to_mark();
        return true;
      case '2': {
        Node* node = pop();
        stack_.push_back(node);
        stack_.push_back(node);
        return true;
      }
      case ']':
        push(Kind::list);
        return true;
      case ')':
        push(Kind::tuple);
        return true;
      case '}':
        push(Kind::dict);
        return true;
      case '\x8f':
        push(Kind::set);
        return true;
      case 'l': {
        auto items = pop_to_mark();
        push(Kind::list).items = std::move(items);
        return true;
      }
      case 't': {
        auto items = pop_to_mark();
        push(Kind::tuple).items = std::move(items);
        return true;
      }
      case '\x91': {
        auto items = pop_to_mark();
        push(Kind::set).items = std::move(items);
        return true;
      }
      case 'd': {
        auto items = pop_to_mark();
        require_pairs(items);
        push(Kind::dict).items = std::move(items);
        return true;
      }
      case '\x85':
        push_tuple(1);
        return true;
      case '\x86':
        push_tuple(2);
        return true;
      case '\x87':
        push_tuple(3);
        return true;
      case 'a': {
        const Node* item = pop();
        top(Kind::list, Kind::object).items.push_back(item);
        return true;
      }
      case 'e': {
        const auto items = pop_to_mark();
        append(top(Kind::list, Kind::object), items);
        return true;
      }
      case '\x90': {
        const auto items = pop_to_mark();
        append(top(Kind::set, Kind::object), items);
        return true;
      }
      case 's': {
        const Node* value = pop();
        const Node* key = pop();
        append(top(Kind::dict, Kind::object), {key, value});
        return true;
      }
      case 'u': {
        const auto items = pop_to_mark();
        require_pairs(items);
        append(top(Kind::dict, Kind::object), items);
        return true;
      }
      default:
        return build_object(opcode);
    }
  }

  bool build_object(char opcode) {
    switch (opcode) {
      case '\x93': {
        const Node* name = pop();
        const Node* module = pop();
        if (name->kind != Kind::text || module->kind != Kind::text) {
          torn("a name that is no text");
        }
        push_global(module->text, name->text);
        return true;
      }
      case 'R': {
        const Node* arguments = pop();
        const Node* callable = pop();
        push_call(*callable, *arguments);
        return true;
      }
      case '\x81': {
        const Node* arguments = pop();
        const Node* callable = pop();
        push_new(*callable, *arguments);
        return true;
      }
      case '\x92': { // NEWOBJ_EX: named arguments are not needed
        pop();
        const Node* arguments = pop();
        const Node* callable = pop();
        push_new(*callable, *arguments);
        return true;
      }
      case 'i': {
        std::string module = line();
        push_global(std::move(module), line());
        const Node* callable = pop();
        Node& arguments = nodes_.add(Kind::tuple);
        arguments.items = pop_to_mark();
        push_call(*callable, arguments);
        return true;
      }
      case 'o': {
        auto items = pop_to_mark();
        if (items.empty()) {
          torn("an object without a class");
        }
        Node& arguments = nodes_.add(Kind::tuple);
        arguments.items.assign(items.begin() + 1, items.end());
        push_call(*items.front(), arguments);
        return true;
      }
      case 'b': {
        const Node* state = pop();
        if (stack_.size() <= floor()) {
          torn("its stack is empty");
        }
        set_state(*stack_.back(), *state);
        return true;
      }
      case 'Q': {
        push_persistent(*pop());
        return true;
      }
      case 'P': {
        Node& id = nodes_.add(Kind::text);
        id.text = line();
        push_persistent(id);
        return true;
      }
      default:
        return false;
    }
  }

  void push_persistent(const Node& id) {
    // A storage is never changed, so one node may serve many uses.
    stack_.push_back(const_cast<Node*>(persistent_(id)));
  }

  /// Handles the memo, and opcodes that only frame the rest. False for another
  /// opcode.
  bool remember(char opcode) {
    switch (opcode) {
      case '\x80':
        if (number<std::uint8_t>() > 5) {
          torn("a protocol newer than 5");
        }
        return true;
      case '\x95':
        number<std::uint64_t>();
        return true;
      case '\x94':
        put(memo_.size());
        return true;
      case 'q':
        put(number<std::uint8_t>());
        return true;
      case 'r':
        put(number<std::uint32_t>());
        return true;
      case 'p':
        put(parsed<std::uint64_t>(line()));
        return true;
      case 'h':
        get(number<std::uint8_t>());
        return true;
      case 'j':
        get(number<std::uint32_t>());
        return true;
      case 'g':
        get(parsed<std::uint64_t>(line()));
        return true;
      default:
        return false;
    }
  }
  void put(std::uint64_t key) {
    if (stack_.size() <= floor()) {
      torn("its stack is empty");
    }
    memo_[key] = stack_.back();
  }
  void get(std::uint64_t key) {
    const auto found = memo_.find(key);
    if (found == memo_.end()) {
      torn("it refers to what is not there");
    }
    stack_.push_back(found->second);
  }

  std::span<const std::byte> bytes_;
  PythonNodes& nodes_;
  const PersistentId& persistent_;
  std::size_t at_ = 0;
  std::vector<Node*> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint64_t, Node*> memo_;
};

} // namespace

Unpickled read_pickle(
    std::span<const std::byte> bytes,
    PythonNodes& nodes,
    const PersistentId& persistent) {
  return Machine(bytes, nodes, persistent).run();
}

} // namespace cairn::checkpoints
