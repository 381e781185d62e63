#pragma once

#include <cairn/model/description.h>
#include <cairn/nn/linear.h>

#include <cstdint>
#include <utility>

namespace cairn::nn {

struct NormOptions {
  model::NormKind kind = model::NormKind::layer_norm;
  double epsilon = 1e-5;
};

/// A norm over the last dimension. The parameters are the same on every rank.
class Norm : public Layer {
 public:
  /// `gradient` says whether each rank contributes only its own tokens.
  Norm(
      const LayerContext& context,
      std::int64_t size,
      const NormOptions& options,
      Gradient gradient = Gradient::of_own_tokens);
  at::Tensor forward(const at::Tensor& x) const;
  /// Returns x, or x + branch where `branch` is defined, and the norm of it. A
  /// caller that uses the first again takes it from here: its two gradients are
  /// then added up within the norm's backward pass.
  std::pair<at::Tensor, at::Tensor> pass(
      const at::Tensor& x,
      const at::Tensor& branch = {}) const;
  /// pass() for a norm that `reader` alone reads: rounded to fp8, where the
  /// reader takes that.
  std::pair<at::Tensor, LayerInput> pass_to(
      const ColumnLinear& reader,
      const at::Tensor& x,
      const at::Tensor& branch = {}) const;

 private:
  bool has_own_pass(const at::Tensor& x, const at::Tensor& branch) const;
  at::Tensor by_libtorch(const at::Tensor& x) const;

  NormOptions options_;
  at::Tensor weight_;
  at::Tensor bias_; ///< undefined for rms_norm
};

} // namespace cairn::nn
