#include <cairn/nn/layer.h>

#include <ATen/ops/empty.h>

namespace cairn::nn {

LayerContext LayerContext::in(std::string_view child) const {
  LayerContext inner = *this;
  if (!inner.path.empty()) {
    inner.path += '.';
  }
  inner.path += child;
  return inner;
}

at::Tensor Layer::add_parameter(
    const LayerContext& context,
    const std::string& name,
    const SlicedShape& shape,
    model::InitialLaw law,
    Gradient gradient) {
  at::Tensor values = at::empty(
      shape.local,
      at::TensorOptions(context.dtype).device(context.device));
  if (context.initial) {
    context.initial->fill(values, context.in(name).path, shape, law);
  } else if (!shape.is_whole()) {
    values.zero_(); // padding stays zero
  }
  if (!shape.is_whole()) {
    slices_.push_back({name, shape.whole, shape.offset});
  } else if (gradient == Gradient::of_own_tokens && context.splits_tokens()) {
    partial_.push_back(name);
  }
  if (gradient == Gradient::of_experts && context.expert_group.size() > 1) {
    expert_.push_back(name);
  }
  return register_parameter(name, std::move(values));
}

} // namespace cairn::nn
