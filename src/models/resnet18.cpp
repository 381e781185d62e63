#include <cairn/models/resnet18.h>

#include <ATen/ops/relu.h>

namespace cairn::models {
namespace {

torch::nn::Conv2d convolution(
    std::int64_t in,
    std::int64_t out,
    std::int64_t size,
    std::int64_t stride) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, size)
                               .stride(stride)
                               .padding(size / 2)
                               .bias(false));
}

struct ResidualImpl : torch::nn::Module {
  ResidualImpl(std::int64_t in, std::int64_t out, std::int64_t stride) {
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
TORCH_MODULE(Residual);

} // namespace

ResNet18Impl::ResNet18Impl(std::int64_t classes, std::int64_t width) {
  convolution_ = register_module("conv1", convolution(3, width, 3, 1));
  norm_ = register_module("bn1", torch::nn::BatchNorm2d(width));
  std::int64_t in = width;
  for (int stage = 0; stage < 4; ++stage) {
    const std::int64_t out = width << stage;
    blocks_->push_back(Residual(in, out, stage == 0 ? 1 : 2));
    blocks_->push_back(Residual(out, out, 1));
    in = out;
  }
  register_module("layers", blocks_);
  head_ = register_module("fc", torch::nn::Linear(in, classes));
}

at::Tensor ResNet18Impl::forward(const at::Tensor& images) {
  const at::Tensor x = blocks_->forward(at::relu(norm_(convolution_(images))));
  return head_(x.mean({2, 3}));
}

} // namespace cairn::models
