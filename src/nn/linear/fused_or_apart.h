#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>

namespace cairn::nn {

/// The choice between one kernel for a product and the operation after it, and
/// two: whichever is faster for a shape on this GPU. It is found by trying when
/// a large shape is first met, and remembered on disk.
class FusedOrApart {
 public:
  /// `what` is computed of left times right, both matrices.
  FusedOrApart(
      const char* what,
      const at::Tensor& left,
      const at::Tensor& right);

  /// True when it is known that two kernels are faster.
  bool apart_is_faster() const;

  /// Tries both unless the choice is known. Both must have no effect other than
  /// their results, and get factors that are there: observers of operators,
  /// which may bring them, do not see it.
  void try_both(
      const std::function<void()>& fused,
      const std::function<void()>& apart) const;

 private:
  at::Device device_;
  std::string key_; ///< empty: not to be tried
};

} // namespace cairn::nn
