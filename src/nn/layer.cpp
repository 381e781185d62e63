#include <cairn/nn/layer.h>

#include "distributed/internal/expert_mark.h"

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

namespace {

/// The memory of a parameter with its initial values, or neither yet.
at::Tensor values_of(
    const LayerContext& context,
    const std::string& name,
    const SlicedShape& shape,
    model::InitialLaw law) {
  const auto options = at::TensorOptions(context.dtype).device(context.device);
  if (context.later) {
    if (context.initial) {
      context.later->set(
          name,
          [initial = *context.initial, name, shape, law](
              std::int64_t first,
              const at::Tensor& values) {
            initial.fill(values, first, name, shape, law);
          });
    }
    return without_memory(shape.local, options);
  }
  at::Tensor values = at::empty(shape.local, options);
  if (context.initial) {
    context.initial->fill(values.view({-1}), 0, name, shape, law);
  } else if (!shape.is_whole()) {
    values.zero_(); // padding stays zero
  }
  return values;
}

/// True when this rank computes a part of a whole parameter's gradient.
bool is_partial(Gradient gradient, const LayerContext& context) {
  return (gradient == Gradient::of_own_tokens && context.splits_tokens()) ||
      (gradient == Gradient::of_own_heads && context.group.size() > 1);
}

} // namespace

at::Tensor Layer::add_parameter(
    const LayerContext& context,
    const std::string& name,
    const SlicedShape& shape,
    model::InitialLaw law,
    Gradient gradient) {
  at::Tensor values = values_of(context, context.in(name).path, shape, law);
  if (!shape.is_whole()) {
    slices_.push_back({name, shape.whole, shape.offset});
  } else if (is_partial(gradient, context)) {
    partial_.push_back(name);
  }
  if (gradient == Gradient::of_experts && context.expert_group.size() > 1) {
    expert_.push_back(name);
    distributed::mark_as_expert(values);
  }
  return register_parameter(name, std::move(values));
}

} // namespace cairn::nn
