#pragma once

#include <cairn/config/node.h>
#include "config/table/json_name.h"
#include "config/table/setting.h"

#include <string>
#include <string_view>
#include <vector>

namespace cairn::config {

/// Functions that read, print and describe values of one type. Rows point to
/// them, so that a type is compiled once, in value_type.cpp, and not for every
/// row.
struct ValueType {
  /// Reads a value of JSON, or the text of a flag as a string node. Throws
  /// ConfigError naming the place, the value and what was expected.
  void (*read)(void* value, const Node&, const Place&, const Rules&);
  Json (*write)(const void* value);
  std::string (*words)(); ///< for help and documentation
};

/// The ValueType of `T`; a new type needs a line at the end of value_type.cpp.
template <typename T>
struct ValueTypeOf {
  static const ValueType value;
};

[[noreturn]] void fail_type(
    const Node&,
    const Place&,
    std::string_view expected);

/// `"adam", "sgd" or "lion"`.
std::string choice_words(const std::vector<std::string_view>& choices);

} // namespace cairn::config
