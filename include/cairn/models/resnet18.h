#pragma once

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <cstdint>

namespace cairn::models {

/// ResNet-18 for small images (32 x 32): the first convolution is 3 x 3 and
/// nothing is pooled before the last layer. Plain libtorch: nothing in it knows
/// of ranks, stages or precision.
class ResNet18Impl : public torch::nn::Module {
 public:
  /// `width`: channels of the first stage.
  explicit ResNet18Impl(std::int64_t classes = 10, std::int64_t width = 64);
  /// [batch, 3, height, width] to [batch, classes].
  at::Tensor forward(const at::Tensor& images);

 private:
  torch::nn::Conv2d convolution_{nullptr};
  torch::nn::BatchNorm2d norm_{nullptr};
  torch::nn::Sequential blocks_;
  torch::nn::Linear head_{nullptr};
};
TORCH_MODULE(ResNet18);

} // namespace cairn::models
