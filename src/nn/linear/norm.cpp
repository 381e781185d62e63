#include <cairn/nn/norm.h>

#include <ATen/ops/layer_norm.h>
#include <ATen/ops/rms_norm.h>

namespace cairn::nn {

Norm::Norm(
    const LayerContext& context,
    std::int64_t size,
    const NormOptions& options,
    Gradient gradient)
    : options_(options) {
  const SlicedShape shape = SlicedShape::all_of({size});
  weight_ =
      add_parameter(context, "weight", shape, model::InitialLaw::one, gradient);
  if (options.kind == model::NormKind::layer_norm) {
    bias_ = add_parameter(
        context,
        "bias",
        shape,
        model::InitialLaw::zero,
        gradient);
  }
}

at::Tensor Norm::forward(const at::Tensor& x) const {
  return options_.kind == model::NormKind::layer_norm
      ? at::layer_norm(x, weight_.sizes(), weight_, bias_, options_.epsilon)
      : at::rms_norm(x, weight_.sizes(), weight_, options_.epsilon);
}

std::pair<at::Tensor, at::Tensor> add_and_normalize(
    const at::Tensor& x,
    const at::Tensor& branch,
    const Norm& norm) {
  at::Tensor sum = x + branch;
  at::Tensor normal = norm.forward(sum);
  return {std::move(sum), std::move(normal)};
}

} // namespace cairn::nn
