#pragma once

#include <cairn/config/node.h>
#include <cairn/config/place.h>
#include "config/enum_names.h"
#include "config/json_tree.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace cairn::config {

/// What a value has to satisfy beyond its type.
struct Rules {
  std::optional<double> least = std::nullopt;
  std::optional<double> most = std::nullopt;
  bool least_excluded = false;
  std::vector<std::string> choices = {}; ///< for text; empty: any
  /// DeepSpeed's validated sections turn true and false into 1 and 0.
  bool bool_is_number = false;
};

/// "at least 0", "0 to 1", "greater than 0"; empty when there is no bound.
std::string range_text(const Rules& rules);

// Readers of one value each, shared by JSON values and by the text of flags
// (which arrives as a string node). They throw ConfigError naming the place,
// the value and what was expected.
void read_value(bool&, const Node&, const Place&, const Rules&);
void read_value(std::int64_t&, const Node&, const Place&, const Rules&);
void read_value(double&, const Node&, const Place&, const Rules&);
void read_value(std::string&, const Node&, const Place&, const Rules&);
void read_value(ZeroStage&, const Node&, const Place&, const Rules&);
void read_value(AmpLossScale&, const Node&, const Place&, const Rules&);

struct Spelling {
  int value = 0;
  std::string_view name;
};
/// The value whose spelling the node holds; letter case does not count.
int read_spelling(
    const Node&,
    const Place&,
    const std::vector<Spelling>& spellings);

[[noreturn]] void fail_type(
    const Node&,
    const Place&,
    std::string_view expected);

template <typename E>
std::vector<Spelling> spellings() {
  std::vector<Spelling> result;
  for (const auto& [value, name] : EnumNames<E>::list) {
    result.push_back({static_cast<int>(value), name});
  }
  return result;
}

template <typename E>
requires requires {
  EnumNames<E>::list;
}
void read_value(E& value, const Node& node, const Place& place, const Rules&) {
  value = static_cast<E>(read_spelling(node, place, spellings<E>()));
}

template <typename T>
void read_value(
    std::vector<T>& values,
    const Node& node,
    const Place& place,
    const Rules& rules) {
  std::vector<T> result;
  if (const auto* elements = node.as<Node::Array>()) {
    for (const Node& element : *elements) {
      read_value(result.emplace_back(), element, place, rules);
    }
  } else if (std::is_same_v<T, std::string> && node.as<std::string>()) {
    read_value(result.emplace_back(), node, place, rules); // a list of one
  } else {
    fail_type(node, place, "a list");
  }
  values = std::move(result);
}

template <typename T, std::size_t n>
void read_value(
    std::array<T, n>& values,
    const Node& node,
    const Place& place,
    const Rules& rules) {
  const auto* elements = node.as<Node::Array>();
  if (!elements || elements->size() != n) {
    fail_type(node, place, "a list of " + std::to_string(n) + " values");
  }
  for (std::size_t i = 0; i < n; ++i) {
    read_value(values[i], (*elements)[i], place, rules);
  }
}

template <typename T>
void read_value(
    std::optional<T>& value,
    const Node& node,
    const Place& place,
    const Rules& rules) {
  if (node.is_null()) {
    value.reset();
    return;
  }
  T inner{};
  read_value(inner, node, place, rules);
  value = std::move(inner);
}

template <typename T>
Json write_value(const T& value) {
  if constexpr (requires { EnumNames<T>::list; }) {
    for (const auto& [each, name] : EnumNames<T>::list) {
      if (each == value) {
        return std::string(name);
      }
    }
    return nullptr;
  } else if constexpr (std::is_same_v<T, ZeroStage>) {
    return static_cast<int>(value);
  } else if constexpr (std::is_same_v<T, AmpLossScale>) {
    return value.fixed ? Json(*value.fixed) : Json("dynamic");
  } else {
    return value;
  }
}
template <typename T>
Json write_value(const std::optional<T>& value) {
  return value ? write_value(*value) : Json(nullptr);
}

// The type in words, for help and documentation.
template <typename T>
struct TypeWords;
template <>
struct TypeWords<bool> {
  static std::string get() { return "true or false"; }
};
template <>
struct TypeWords<std::int64_t> {
  static std::string get() { return "integer"; }
};
template <>
struct TypeWords<double> {
  static std::string get() { return "number"; }
};
template <>
struct TypeWords<std::string> {
  static std::string get() { return "text"; }
};
template <>
struct TypeWords<ZeroStage> {
  static std::string get() { return "0, 1, 2 or 3"; }
};
template <>
struct TypeWords<AmpLossScale> {
  static std::string get() { return "\"dynamic\" or number"; }
};
std::string words_of(const std::vector<Spelling>& spellings);
template <typename E>
requires requires {
  EnumNames<E>::list;
}
struct TypeWords<E> {
  static std::string get() { return words_of(spellings<E>()); }
};
/// "list of 2 numbers"
std::string list_words(const std::string& count, const std::string& element);
template <typename T>
struct TypeWords<std::optional<T>> : TypeWords<T> {};
template <typename T>
struct TypeWords<std::vector<T>> {
  static std::string get() { return list_words("", TypeWords<T>::get()); }
};
template <typename T, std::size_t n>
struct TypeWords<std::array<T, n>> {
  static std::string get() {
    return list_words(std::to_string(n) + " ", TypeWords<T>::get());
  }
};

// Follows a chain of members from the root. An optional section on the way is
// made when written and leads nowhere when read.
template <typename T>
T& reach(T& value) {
  return value;
}
template <typename T, typename First, typename... Rest>
auto& reach(T& owner, First first, Rest... rest) {
  auto& member = owner.*first;
  if constexpr (sizeof...(rest) > 0 && requires { member.has_value(); }) {
    if (!member) {
      member.emplace();
    }
    return reach(*member, rest...);
  } else {
    return reach(member, rest...);
  }
}

template <typename T, typename Found>
Json look(const T& value, Found found) {
  return found(value);
}
template <typename T, typename Found, typename First, typename... Rest>
Json look(const T& owner, Found found, First first, Rest... rest) {
  const auto& member = owner.*first;
  if constexpr (sizeof...(rest) > 0 && requires { member.has_value(); }) {
    return member ? look(*member, found, rest...) : Json(nullptr);
  } else {
    return look(member, found, rest...);
  }
}

template <typename M>
struct MemberOf;
template <typename C, typename T>
struct MemberOf<T C::*> {
  using Owner = C;
  using Type = T;
};

/// A setting's ties to a member of Root: plain functions, so that a table of
/// hundreds of them stays quick to compile and to build.
template <typename Root>
struct Binding {
  void (*set)(Root&, const Node&, const Place&, const Rules&) = nullptr;
  Json (*get)(const Root&) = nullptr;
  std::string (*type)() = nullptr;
  bool list = false; ///< takes several values
  bool flag = false; ///< true or false
};

template <typename T>
inline constexpr bool is_list = false;
template <typename T>
inline constexpr bool is_list<std::vector<T>> = true;
template <typename T, std::size_t n>
inline constexpr bool is_list<std::array<T, n>> = true;
template <typename T>
inline constexpr bool is_list<std::optional<T>> = is_list<T>;

template <auto first, auto... rest>
auto bind() {
  using Root = typename MemberOf<decltype(first)>::Owner;
  using Type = std::remove_reference_t<
      decltype(reach(std::declval<Root&>(), first, rest...))>;
  return Binding<Root>{
      .set =
          [](Root& root, const Node& node, const Place& place, const Rules& r) {
            read_value(reach(root, first, rest...), node, place, r);
          },
      .get =
          [](const Root& root) {
            return look(
                root,
                [](const auto& value) { return Json(write_value(value)); },
                first,
                rest...);
          },
      .type = [] { return TypeWords<Type>::get(); },
      .list = is_list<Type>,
      .flag = std::is_same_v<Type, bool> ||
          std::is_same_v<Type, std::optional<bool>>};
}

} // namespace cairn::config
