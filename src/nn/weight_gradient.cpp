#include "nn/weight_gradient.h"

#include "kernels/gradient_place.h"
#include "nn/product.h"

namespace cairn::nn {
namespace {

/// Undefined where none is wanted.
at::Tensor wanted_place(const at::Tensor& weight) {
  kernels::GradientPlace* const wanted = kernels::gradient_place(weight);
  return wanted ? wanted->take() : at::Tensor();
}

} // namespace

at::Tensor weight_gradient(
    const at::Tensor& weight,
    const at::Tensor& gradient,
    const at::Tensor& x) {
  const at::Tensor place = wanted_place(weight);
  if (!place.defined()) {
    return product(gradient.t(), x);
  }
  product_into(place, gradient.t(), x, Into::overwrite);
  return place;
}

at::Tensor batch_weight_gradient(
    const at::Tensor& weight,
    const at::Tensor& gradient,
    const at::Tensor& x) {
  const at::Tensor place = wanted_place(weight);
  if (!place.defined()) {
    return batch_product(gradient.transpose(1, 2), x);
  }
  batch_product_into(place, gradient.transpose(1, 2), x);
  return place;
}

} // namespace cairn::nn
