#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace cairn::config {

/// A position in a text. Both count from 1, columns in characters.
/// Line 0 means "not from a text".
struct Position {
  int line = 0;
  int column = 0;
  bool operator==(const Position&) const = default;
};

struct Member;

/// A JSON value that remembers where it was written, so that a mistake found
/// much later can still name its line.
struct Node {
  using Array = std::vector<Node>;
  using Object = std::vector<Member>; ///< in the order of the text

  std::variant<
      std::monostate,
      bool,
      std::int64_t,
      double,
      std::string,
      Array,
      Object>
      value;
  Position position;

  template <typename T>
  const T* as() const {
    return std::get_if<T>(&value);
  }
  bool is_null() const { return value.index() == 0; }
  /// The member of that name, or nullptr (also when this is no object).
  const Node* find(std::string_view name) const;
};

struct Member {
  std::string name;
  Position position; ///< of the name
  Node value;
};

/// The value as compact JSON text, shortened with "…" past `most` characters:
/// for messages.
std::string shown(const Node& node, std::size_t most = 60);

/// The place where a setting was given: a file, or the command line.
struct Place {
  std::string file; ///< empty for a flag
  Position position;
  std::string name; ///< "zero_optimization.stage" or "--zero-stage"

  /// `ds.json:7:5 (zero_optimization.stage)`, or just `--zero-stage`.
  std::string text() const;
};

} // namespace cairn::config
