#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/nn/tensors_in.h>

#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

namespace cairn::pipeline {

using Tensors = std::vector<at::Tensor>;

namespace detail {

inline constexpr std::size_t most_arguments = 8;

template <std::size_t>
using OneTensor = const at::Tensor&;

template <typename Function, std::size_t... i>
constexpr bool takes_tensors(std::index_sequence<i...>) {
  return std::is_invocable_v<Function&, OneTensor<i>...>;
}
template <typename Function, std::size_t count>
inline constexpr bool takes =
    takes_tensors<Function>(std::make_index_sequence<count>());

template <typename Function, std::size_t... i>
constexpr bool takes_some(std::index_sequence<i...>) {
  return (takes<Function, i + 1> || ...);
}

[[noreturn]] void refuse_tensors(std::size_t count);

template <typename Function, std::size_t... i>
auto apply(
    Function& function,
    const Tensors& inputs,
    std::index_sequence<i...>) {
  return function(inputs[i]...);
}

template <std::size_t count, typename Function>
bool call_if(Function& function, const Tensors& inputs, Tensors& outputs) {
  if constexpr (takes<Function, count>) {
    if (inputs.size() == count) {
      auto result = apply(function, inputs, std::make_index_sequence<count>());
      outputs = nn::tensors_in(result);
      return true;
    }
  }
  return false;
}

template <typename Function, std::size_t... i>
Tensors call_with(
    Function& function,
    const Tensors& inputs,
    std::index_sequence<i...>) {
  Tensors outputs;
  if (!(call_if<i + 1>(function, inputs, outputs) || ...)) {
    refuse_tensors(inputs.size());
  }
  return outputs;
}

} // namespace detail

/// True for a function of tensors. It takes one to eight tensors, or a vector
/// of them. Its result is a tensor, or any nesting of tuple, pair and vector of
/// tensors.
template <typename Function>
inline constexpr bool is_tensor_function =
    detail::takes_some<Function>(
        std::make_index_sequence<detail::most_arguments>()) ||
    std::is_invocable_v<Function&, const Tensors&>;

/// Calls the function with `inputs`. Throws UsageError if it does not take
/// that many tensors.
template <typename Function>
Tensors call_with_tensors(Function& function, const Tensors& inputs) {
  using Counts = std::make_index_sequence<detail::most_arguments>;
  if constexpr (detail::takes_some<Function>(Counts())) {
    return detail::call_with(function, inputs, Counts());
  } else {
    auto result = function(inputs);
    return nn::tensors_in(result);
  }
}

} // namespace cairn::pipeline
