#include <cairn/pipeline/layer_spec.h>

#include <c10/util/Type.h>
#include <cairn/base/error.h>
#include <fmt/format.h>

namespace cairn::pipeline {

namespace detail {

void refuse_tensors(std::size_t count) {
  throw UsageError(
      {.what = "a layer does not take as many tensors as the one before gives",
       .values = fmt::format("{} tensors", count),
       .remedy = "let its forward take that many, or a std::vector of them"});
}

std::string type_name(const std::type_info& type) {
  // Cut "Impl": people know the name of the holder.
  constexpr std::string_view suffix = "Impl";
  std::string name = c10::demangle(type.name());
  if (name.ends_with(suffix)) {
    name.resize(name.size() - suffix.size());
  }
  return name;
}

void refuse_module(
    const std::type_info& wanted,
    const torch::nn::Module* given) {
  throw UsageError(
      {.what = "tied layers of one key are not of one type",
       .values = fmt::format(
           "{} and {}",
           type_name(wanted),
           given != nullptr ? type_name(typeid(*given)) : "none")});
}

namespace {

template <typename... Types>
Tensors unpacked(torch::nn::AnyValue& value) {
  Tensors result;
  const bool found = ([&] {
    auto* const held = value.try_get<Types>();
    if (held != nullptr) {
      result = nn::tensors_in(*held);
    }
    return held != nullptr;
  }() || ...);
  if (!found) {
    throw UsageError(
        {.what = "a layer's forward has to return tensors",
         .values = c10::demangle(value.type_info().name())});
  }
  return result;
}

} // namespace

} // namespace detail

std::vector<LayerSpec> to_layers(const torch::nn::Sequential& sequential) {
  using at::Tensor;
  std::vector<LayerSpec> layers;
  const std::vector<std::string> names = sequential->named_children().keys();
  for (torch::nn::AnyModule& module : *sequential.ptr()) {
    LayerSpec layer;
    layer.name = names[layers.size()];
    layer.type = detail::type_name(typeid(*module.ptr()));
    layer.build = [net = module.ptr()] { return net; };
    layer.exists = true;
    layer.call = [module](torch::nn::Module*, const Tensors& inputs) mutable {
      const auto forward = [&](const auto&... each) {
        torch::nn::AnyValue result = module.any_forward(each...);
        return detail::unpacked<
            Tensor,
            Tensors,
            std::tuple<Tensor, Tensor>,
            std::tuple<Tensor, Tensor, Tensor>>(result);
      };
      return call_with_tensors(forward, inputs);
    };
    layers.push_back(std::move(layer));
  }
  return layers;
}

} // namespace cairn::pipeline
