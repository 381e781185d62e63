#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

namespace cairn::kernels {

/// Where a parameter's gradient is wanted. Whoever collects gradients hangs it
/// on the parameter; operators of ours ask for it in backward and write there,
/// so that nothing is copied. Those who do not ask lose nothing.
class GradientPlace : public torch::autograd::PostAccumulateGradHook {
 public:
  /// Memory in the parameter's shape and type, to be overwritten and then
  /// returned as the gradient. Undefined if there is none to give: the
  /// gradient is then memory of its own, as usual.
  virtual at::Tensor take() = 0;

  /// Adds rows[i] to row ids[i] of the gradient, later, if a gradient is on its
  /// way from another operator that took the place. False: nothing is done,
  /// they are a gradient of their own.
  virtual bool add_rows(const at::Tensor& ids, const at::Tensor& rows) = 0;
};

/// nullptr where there is none.
inline GradientPlace* gradient_place(const at::Tensor& parameter) {
  if (!parameter.is_leaf() || !parameter.requires_grad()) {
    return nullptr;
  }
  return dynamic_cast<GradientPlace*>(
      torch::autograd::impl::post_acc_grad_hooks(parameter).get());
}

} // namespace cairn::kernels
