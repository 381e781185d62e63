#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

namespace cairn::kernels {

/// The place where a parameter's gradient is wanted. The code that collects
/// gradients attaches it to the parameter; our operators ask for it in backward
/// and write there, so that nothing is copied. Operators that do not ask work
/// as usual.
class GradientPlace : public torch::autograd::PostAccumulateGradHook {
 public:
  /// Memory in the parameter's shape and type, to be overwritten and returned
  /// as the gradient. Undefined if there is none; the operator then allocates
  /// its gradient as usual.
  virtual at::Tensor take() = 0;

  /// Memory in the parameter's shape, in the type in which gradients are summed
  /// up.
  struct Sum {
    at::Tensor memory; ///< undefined if there is none to be had
    bool add = false;  ///< add to it; otherwise overwrite it
  };
  /// The place as a sum: also where earlier gradients are to be added to, or
  /// where sums have another type than the parameter. The operator writes
  /// there, calls arrived(), and gives autograd no gradient.
  virtual Sum take_sum() = 0;
  virtual void arrived() = 0;

  /// Adds rows[i] to row ids[i] of the gradient later, if another operator has
  /// taken the place and its gradient is on the way. False when nothing was
  /// done; the rows are then a gradient of their own.
  virtual bool add_rows(const at::Tensor& ids, const at::Tensor& rows) = 0;
};

/// The place of a parameter's gradient; nullptr if it has none, or if the user
/// has hooks on it, which want to see the gradient first.
inline GradientPlace* gradient_place(const at::Tensor& parameter) {
  if (!parameter.is_leaf() || !parameter.requires_grad() ||
      !torch::autograd::impl::hooks(parameter).empty()) {
    return nullptr;
  }
  return dynamic_cast<GradientPlace*>(
      torch::autograd::impl::post_acc_grad_hooks(parameter).get());
}

} // namespace cairn::kernels
