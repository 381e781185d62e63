#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstddef>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace cairn::nn {

/// True for types in whose values tensors are found: a tensor, or any nesting
/// of optional, vector, array, pair and tuple with tensors in it.
template <typename T>
inline constexpr bool holds_tensors = false;
template <>
inline constexpr bool holds_tensors<at::Tensor> = true;
template <typename T>
inline constexpr bool holds_tensors<std::optional<T>> = holds_tensors<T>;
template <typename T>
inline constexpr bool holds_tensors<std::vector<T>> = holds_tensors<T>;
template <typename T, std::size_t n>
inline constexpr bool holds_tensors<std::array<T, n>> = holds_tensors<T>;
template <typename T, typename U>
inline constexpr bool holds_tensors<std::pair<T, U>> =
    holds_tensors<T> || holds_tensors<U>;
template <typename... T>
inline constexpr bool holds_tensors<std::tuple<T...>> =
    (holds_tensors<T> || ...);

/// Calls `visit(at::Tensor&)` for every tensor in `value`, in order, undefined
/// ones included.
template <typename T, typename Visit>
void for_each_tensor(T& value, Visit&& visit) {
  if constexpr (std::is_same_v<T, at::Tensor>) {
    visit(value);
  } else if constexpr (!holds_tensors<T>) {
    // There are no tensors in this type.
  } else if constexpr (requires { std::tuple_size<T>::value; }) {
    std::apply(
        [&](auto&... each) { (for_each_tensor(each, visit), ...); },
        value);
  } else if constexpr (requires { value.has_value(); }) {
    if (value) {
      for_each_tensor(*value, visit);
    }
  } else {
    for (auto& each : value) {
      for_each_tensor(each, visit);
    }
  }
}

/// The tensors in `value`, in order.
template <typename T>
std::vector<at::Tensor> tensors_in(T& value) {
  std::vector<at::Tensor> tensors;
  for_each_tensor(value, [&](at::Tensor& t) { tensors.push_back(t); });
  return tensors;
}

/// Replaces the tensors in `value` by `tensors`, as many as tensors_in() gave.
template <typename T>
void replace_tensors(T& value, const std::vector<at::Tensor>& tensors) {
  std::size_t next = 0;
  for_each_tensor(value, [&](at::Tensor& t) { t = tensors.at(next++); });
}

} // namespace cairn::nn
