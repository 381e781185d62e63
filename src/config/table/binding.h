#pragma once

#include "config/table/value_type.h"

#include <array>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace cairn::config {

// Follow a chain of members from the root. reach_member() makes an optional
// section on the way; find_member() returns nullptr where one is missing.
template <typename T>
void* reach_member(T& value) {
  return &value;
}
template <typename T, typename First, typename... Rest>
void* reach_member(T& owner, First first, Rest... rest) {
  auto& member = owner.*first;
  if constexpr (sizeof...(rest) > 0 && requires { member.has_value(); }) {
    return reach_member(member ? *member : member.emplace(), rest...);
  } else {
    return reach_member(member, rest...);
  }
}
template <typename T>
const void* find_member(const T& value) {
  return &value;
}
template <typename T, typename First, typename... Rest>
const void* find_member(const T& owner, First first, Rest... rest) {
  const auto& member = owner.*first;
  if constexpr (sizeof...(rest) > 0 && requires { member.has_value(); }) {
    return member ? find_member(*member, rest...) : nullptr;
  } else {
    return find_member(member, rest...);
  }
}

/// The member of Root that a setting fills, as constant data.
template <typename Root>
struct Binding {
  void* (*reach)(Root&) = nullptr;
  const void* (*find)(const Root&) = nullptr;
  const ValueType* value = nullptr;
  bool list = false; ///< takes several values
  bool flag = false; ///< true or false

  void set(Root&, const Node&, const Place&, const Rules&) const;
  /// The value; null where it is in an optional section that is absent.
  Json get(const Root&) const;
  /// The type in words.
  std::string type() const;
};

template <typename M>
struct MemberOf;
template <typename C, typename T>
struct MemberOf<T C::*> {
  using Owner = C;
  using Type = T;
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
constexpr auto bind() {
  using Root = typename MemberOf<decltype(first)>::Owner;
  using Last = std::remove_cvref_t<std::tuple_element_t<
      sizeof...(rest),
      std::tuple<decltype(first), decltype(rest)...>>>;
  using Type = typename MemberOf<Last>::Type;
  return Binding<Root>{
      .reach = [](Root& root) { return reach_member(root, first, rest...); },
      .find =
          [](const Root& root) { return find_member(root, first, rest...); },
      .value = &ValueTypeOf<Type>::value,
      .list = is_list<Type>,
      .flag = std::is_same_v<Type, bool> ||
          std::is_same_v<Type, std::optional<bool>>};
}

/// The binding of the last of these members, each a member of the one before.
template <auto... members>
inline constexpr auto to = bind<members...>();

} // namespace cairn::config
