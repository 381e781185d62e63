#include "nn/linear/weight_gradient.h"

#include "kernels/internal/gradient_place.h"
#include "nn/linear/product.h"

#include <vector>

namespace cairn::nn {

at::Tensor weight_gradient(
    const at::Tensor& weight,
    const at::Tensor& gradient,
    const at::Tensor& x) {
  const at::Tensor left = gradient.transpose(-2, -1);
  kernels::GradientPlace* const wanted = kernels::gradient_place(weight);
  const auto sum = wanted ? wanted->take_sum() : kernels::GradientPlace::Sum();
  if (!sum.memory.defined()) {
    return product(left, x);
  }
  product_into(sum.memory, left, x, sum.add ? Into::add : Into::overwrite);
  wanted->arrived();
  return {};
}

at::Tensor weight_gradient_or_later(
    const std::shared_ptr<DeferredGradients>& later,
    const at::Tensor& weight,
    const at::Tensor& gradient,
    const at::Tensor& x) {
  if (!later || !DeferredGradients::takes(weight)) {
    return weight_gradient(weight, gradient, x);
  }
  later->add({weight}, [gradient, x] {
    return std::vector{product(gradient.transpose(-2, -1), x)};
  });
  return {};
}

} // namespace cairn::nn
