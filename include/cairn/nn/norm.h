#pragma once

#include <cairn/nn/layer.h>

#include <cstdint>
#include <utility>

namespace cairn::nn {

enum class NormKind { layer_norm, rms_norm };

struct NormOptions {
  NormKind kind = NormKind::layer_norm;
  double epsilon = 1e-5;
};

/// Over the last dimension. The parameters are the same on every rank.
class Norm : public Layer {
 public:
  /// `gradient`: whether each rank puts in its own tokens only.
  Norm(
      const LayerContext& context,
      std::int64_t size,
      const NormOptions& options,
      Gradient gradient = Gradient::of_own_tokens);
  at::Tensor forward(const at::Tensor& x) const;

 private:
  NormOptions options_;
  at::Tensor weight_;
  at::Tensor bias_; ///< undefined for rms_norm
};

/// x + branch, and its norm.
std::pair<at::Tensor, at::Tensor> add_and_normalize(
    const at::Tensor& x,
    const at::Tensor& branch,
    const Norm& norm);

} // namespace cairn::nn
