#pragma once

#include <ATen/Functions.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <cstdint>

// ResNet-18 for small images (32 x 32): the first convolution is 3 x 3 and
// nothing is pooled before the last layer. Plain libtorch; nothing in it knows
// of ranks, stages or precision.

namespace resnet {

inline torch::nn::Conv2d convolution(
    std::int64_t in,
    std::int64_t out,
    std::int64_t size,
    std::int64_t stride) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, size)
                               .stride(stride)
                               .padding(size / 2)
                               .bias(false));
}

struct BlockImpl : torch::nn::Module {
  BlockImpl(std::int64_t in, std::int64_t out, std::int64_t stride) {
    conv1 = register_module("conv1", convolution(in, out, 3, stride));
    norm1 = register_module("bn1", torch::nn::BatchNorm2d(out));
    conv2 = register_module("conv2", convolution(out, out, 3, 1));
    norm2 = register_module("bn2", torch::nn::BatchNorm2d(out));
    if (in != out || stride != 1) {
      shortcut = register_module(
          "downsample",
          torch::nn::Sequential(
              convolution(in, out, 1, stride),
              torch::nn::BatchNorm2d(out)));
    }
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = norm2(conv2(at::relu(norm1(conv1(x)))));
    return at::relu(y + (shortcut.is_empty() ? x : shortcut->forward(x)));
  }
  torch::nn::Conv2d conv1{nullptr}, conv2{nullptr};
  torch::nn::BatchNorm2d norm1{nullptr}, norm2{nullptr};
  torch::nn::Sequential shortcut{nullptr};
};
TORCH_MODULE(Block);

struct ResNet18Impl : torch::nn::Module {
  explicit ResNet18Impl(std::int64_t classes = 10, std::int64_t width = 64) {
    conv = register_module("conv1", convolution(3, width, 3, 1));
    norm = register_module("bn1", torch::nn::BatchNorm2d(width));
    std::int64_t in = width;
    for (int stage = 0; stage < 4; ++stage) {
      const std::int64_t out = width << stage;
      blocks->push_back(Block(in, out, stage == 0 ? 1 : 2));
      blocks->push_back(Block(out, out, 1));
      in = out;
    }
    register_module("layers", blocks);
    head = register_module("fc", torch::nn::Linear(in, classes));
  }
  /// [batch, 3, height, width] to [batch, classes].
  at::Tensor forward(const at::Tensor& images) {
    const at::Tensor x = blocks->forward(at::relu(norm(conv(images))));
    return head(x.mean({2, 3}));
  }
  torch::nn::Conv2d conv{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Sequential blocks;
  torch::nn::Linear head{nullptr};
};
TORCH_MODULE(ResNet18);

} // namespace resnet
