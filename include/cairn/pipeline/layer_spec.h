#pragma once

#include <cairn/pipeline/call_with_tensors.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/pimpl.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

namespace cairn::pipeline {

namespace detail {

template <typename T>
inline constexpr bool is_holder =
    std::is_base_of_v<torch::detail::ModuleHolderIndicator, T>;

/// The module in a holder, or the module itself.
template <typename T>
struct Contained {
  using Type = T;
};
template <typename T>
requires is_holder<T>
struct Contained<T> {
  using Type = typename T::ContainedType;
};

template <typename Net>
std::shared_ptr<Net> pointer_to(std::shared_ptr<Net> net) {
  return net;
}
template <typename Net>
std::shared_ptr<Net> pointer_to(const torch::nn::ModuleHolder<Net>& holder) {
  return holder.ptr();
}
/// The module that a builder makes.
template <typename Builder>
using Built =
    typename decltype(pointer_to(std::declval<Builder&>()()))::element_type;

std::string type_name(const std::type_info& type);
[[noreturn]] void refuse_module(
    const std::type_info& wanted,
    const torch::nn::Module* given);

template <typename Net>
Net& as(torch::nn::Module* module) {
  auto* net = dynamic_cast<Net*>(module);
  if (net == nullptr) {
    refuse_module(typeid(Net), module);
  }
  return *net;
}

} // namespace detail

/// A layer of a pipeline: how to make it and how to call it. Only the stage
/// that has the layer makes it.
///
///   std::vector<LayerSpec> layers = {
///       LayerSpec::of<torch::nn::Linear>(8, 16),
///       [](const at::Tensor& x) { return at::relu(x); },
///       net->head};  // a module that exists already
///
/// A layer takes the tensors that the layer before it gives, and gives one or
/// several: see is_tensor_function.
struct LayerSpec {
  using Build = std::function<std::shared_ptr<torch::nn::Module>()>;
  using Call = std::function<Tensors(torch::nn::Module*, const Tensors&)>;

  /// Layer of a function without parameters of its own.
  template <typename Function>
  requires(
      !std::same_as<Function, LayerSpec> && !detail::is_holder<Function> &&
      is_tensor_function<Function>) LayerSpec(Function function)
      : type("function"),
        call([function = std::move(function)](
                 torch::nn::Module*,
                 const Tensors& inputs) mutable {
          return call_with_tensors(function, inputs);
        }) {}

  /// Layer of a module that exists already.
  template <std::derived_from<torch::nn::Module> Net>
  LayerSpec(std::shared_ptr<Net> net)
      : LayerSpec(built_by([net = std::move(net)] { return net; })) {
    exists = true;
  }
  template <typename Net>
  LayerSpec(const torch::nn::ModuleHolder<Net>& holder)
      : LayerSpec(holder.ptr()) {}

  /// Layer of a module `Net` (or its holder), made from copies of `arguments`.
  template <typename Net, typename... Arguments>
  static LayerSpec of(Arguments... arguments) {
    using Module = typename detail::Contained<Net>::Type;
    return built_by([arguments = std::make_tuple(std::move(arguments)...)] {
      return std::apply(
          [](const auto&... each) { return std::make_shared<Module>(each...); },
          arguments);
    });
  }

  /// Layer of the module that `builder()` makes: a holder or shared_ptr of a
  /// module with a forward().
  template <typename Builder>
  static LayerSpec built_by(Builder builder) {
    using Net = detail::Built<Builder>;
    return built_by(
        std::move(builder),
        [](Net& net,
           const auto&... inputs) -> decltype(net.forward(inputs...)) {
          return net.forward(inputs...);
        });
  }
  /// Layer of the module that `builder()` makes, called by forward(module,
  /// tensors…).
  template <typename Builder, typename Forward>
  static LayerSpec built_by(Builder builder, Forward forward) {
    using Net = detail::Built<Builder>;
    LayerSpec result;
    result.type = detail::type_name(typeid(Net));
    result.build = [builder = std::move(builder)] {
      return std::shared_ptr<torch::nn::Module>(detail::pointer_to(builder()));
    };
    result.call = [forward = std::move(forward)](
                      torch::nn::Module* module,
                      const Tensors& inputs) mutable {
      Net& net = detail::as<Net>(module);
      const auto bound =
          [&](const auto&... each) -> decltype(forward(net, each...)) {
        return forward(net, each...);
      };
      static_assert(
          is_tensor_function<decltype(bound)>,
          "a layer's forward takes and gives tensors");
      return call_with_tensors(bound, inputs);
    };
    return result;
  }

  /// Layer of a shared module. Layers of one key are the same module, with the
  /// same weights, on whichever stages they are. Each may be called in a way of
  /// its own:
  ///
  ///   const auto words = [] { return torch::nn::Embedding(1000, 64); };
  ///   LayerSpec::tied("words", words),
  ///   …
  ///   LayerSpec::tied("words", words,
  ///       [](torch::nn::EmbeddingImpl& words, const at::Tensor& x) {
  ///         return x.matmul(words.weight.t());
  ///       })
  template <typename Builder, typename... Forward>
  static LayerSpec tied(std::string key, Builder builder, Forward... forward) {
    LayerSpec result = built_by(std::move(builder), std::move(forward)...);
    result.tie = std::move(key);
    return result;
  }

  /// This layer with its parameters under another name; see `name`.
  LayerSpec named(std::string new_name) && {
    name = std::move(new_name);
    return std::move(*this);
  }
  LayerSpec named(std::string new_name) const& {
    return LayerSpec(*this).named(std::move(new_name));
  }

  /// Prefix of the names of its parameters, followed by a dot. Empty: no
  /// prefix. Unset: "layers." and the layer's number among all layers.
  std::optional<std::string> name{};
  std::string type{}; ///< for PartitionMethod's `type`
  std::string tie{};  ///< key of a shared module; empty: not shared
  Build build{};      ///< unset for a function
  Call call{};
  bool exists = false; ///< true when build() costs nothing
  /// Number of parameters. Unset: counted by building the layer, where it
  /// matters.
  std::optional<std::int64_t> parameters{};

 private:
  LayerSpec() = default;
  friend std::vector<LayerSpec> to_layers(const torch::nn::Sequential&);
};

/// The modules of a Sequential, with the names they have in it.
std::vector<LayerSpec> to_layers(const torch::nn::Sequential& sequential);

} // namespace cairn::pipeline
