#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/ArrayRef.h>
#include <cairn/base/log.h>
#include <cairn/distributed/process_group.h>
#include <cairn/nn/tensors_in.h>

#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace cairn::config {
struct ActivationCheckpointingConfig;
} // namespace cairn::config

namespace cairn::nn {

class ActivationBuffer;

/// The way in which checkpoint() keeps its inputs from forward to backward. By
/// default it keeps them where they are, by reference; the options change that
/// for floating-point activations. Integers, and leaves that require grad and
/// live on anyway, are always kept by reference.
struct CheckpointOptions {
  /// True: inputs rest in CPU memory. Those from a GPU are in pinned memory and
  /// are copied beside the computation.
  bool on_cpu = false;
  /// Group whose ranks all have the same inputs and make the same calls. Each
  /// rank keeps its part of the inputs, and backward gathers the parts.
  std::optional<distributed::ProcessGroup> partition_over{};
  /// Memory reserved at once for copied inputs; see from().
  std::shared_ptr<ActivationBuffer> buffer{};
  /// True: wait for the GPU at the beginning and the end of both passes.
  bool synchronize = false;
  /// Logs how long both passes took, which waits for the GPU as well.
  std::optional<Logger> profile{};

  /// Options that `activation_checkpointing` of a DeepSpeed configuration asks
  /// for. Throws ConfigError for keys that could have no effect. Copies share
  /// one buffer, so make one set of options for a model and pass it everywhere.
  static CheckpointOptions from(
      const config::ActivationCheckpointingConfig& config,
      const distributed::ProcessGroup& tensor_parallel,
      const Logger& log = Logger());
};

namespace detail {

using Tensors = std::vector<at::Tensor>;
using TensorFunction = std::function<Tensors(const Tensors&)>;

/// Calls `first` now, without grad, and `again` with the same inputs in
/// backward. Returns the outputs of `first`, with a history.
Tensors run_checkpointed(
    const CheckpointOptions& options,
    const Tensors& inputs,
    const TensorFunction& first,
    TensorFunction again);

template <typename>
inline constexpr bool never = false;

template <typename Function, typename... Values>
decltype(auto) call(Function& function, const Values&... values) {
  // A module is tried first: the call operator of torch::nn::Sequential's
  // holder does not compile.
  if constexpr (requires { function->forward(values...); }) {
    return function->forward(values...);
  } else if constexpr (std::is_invocable_v<Function&, const Values&...>) {
    return std::invoke(function, values...);
  } else {
    static_assert(
        never<Function>,
        "checkpoint() needs something to call with these inputs as constants, "
        "or a module by its holder, shared_ptr or pointer");
  }
}

template <typename>
inline constexpr bool is_array_ref = false;
template <typename T>
inline constexpr bool is_array_ref<c10::ArrayRef<T>> = true;

} // namespace detail

/// Calls `function(inputs…)` and keeps only the inputs. Intermediate results
/// are thrown away and computed again in backward, with the same random numbers
/// and autocast. This takes less memory for about a third more computation.
///
///   x = cairn::checkpoint(block, x, mask);
///   auto [y, z] = cairn::checkpoint([&](const Tensor& x) { … }, x);
///
/// The function is anything that can be called, or a module by its holder or
/// pointer. It is kept until backward is over and must do the same again. Its
/// result is tensors, in any nesting of tuple, pair, vector, array, optional.
/// Inputs are tensors, such nestings of tensors, or other values, which are
/// copied. Tensors with a history must be inputs, not captured. All
/// floating-point outputs require grad. Without grad mode this is a plain call.
template <typename Function, typename... Inputs>
auto checkpoint(
    const CheckpointOptions& options,
    Function&& function,
    Inputs&&... inputs) {
  static_assert(
      !(detail::is_array_ref<std::decay_t<Inputs>> || ...),
      "checkpoint() outlives an ArrayRef: pass a std::vector");
  using Values = std::tuple<std::decay_t<Inputs>...>;
  using Result = std::decay_t<decltype(detail::call(
      function,
      std::declval<const std::decay_t<Inputs>&>()...))>;
  static_assert(
      holds_tensors<Result>,
      "checkpoint() needs a function that returns tensors");

  struct Call {
    std::decay_t<Function> function;
    Values values;

    Result operator()(const detail::Tensors& tensors) {
      Values all = values;
      replace_tensors(all, tensors);
      return std::apply(
          [this](const auto&... each) -> Result {
            return detail::call(function, each...);
          },
          all);
    }
  };

  const auto call = std::make_shared<Call>(Call{
      std::forward<Function>(function),
      Values(std::forward<Inputs>(inputs)...)});
  const detail::Tensors tensors = tensors_in(call->values);
  if (!at::GradMode::is_enabled()) {
    return (*call)(tensors);
  }
  // The call outlives forward, so it must not keep the tensors: they are kept
  // elsewhere.
  for_each_tensor(call->values, [](at::Tensor& t) { t = at::Tensor(); });

  std::optional<Result> result;
  const detail::Tensors outputs = detail::run_checkpointed(
      options,
      tensors,
      [&](const detail::Tensors& given) {
        result.emplace((*call)(given));
        return tensors_in(*result);
      },
      [call](const detail::Tensors& given) {
        Result again = (*call)(given);
        return tensors_in(again);
      });
  replace_tensors(*result, outputs);
  return *std::move(result);
}

template <typename Function, typename... Inputs>
requires(!std::same_as<std::decay_t<Function>, CheckpointOptions>) auto checkpoint(
    Function&& function,
    Inputs&&... inputs) {
  return checkpoint(
      CheckpointOptions{},
      std::forward<Function>(function),
      std::forward<Inputs>(inputs)...);
}

} // namespace cairn::nn

namespace cairn {
using nn::checkpoint;
using nn::CheckpointOptions;
} // namespace cairn
