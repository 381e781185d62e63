#include "nn/linear/weight_gradient.h"

#include "kernels/internal/gradient_place.h"
#include "nn/linear/product.h"

namespace cairn::nn {

at::Tensor weight_gradient(
    const at::Tensor& weight,
    const at::Tensor& gradient,
    const at::Tensor& x) {
  kernels::GradientPlace* const wanted = kernels::gradient_place(weight);
  at::Tensor place = wanted ? wanted->take() : at::Tensor();
  if (!place.defined()) {
    return product(gradient.transpose(-2, -1), x);
  }
  product_into(place, gradient.transpose(-2, -1), x, Into::overwrite);
  return place;
}

} // namespace cairn::nn
