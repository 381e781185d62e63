#pragma once

#include <ATen/Functions.h>
#include <cairn/models/resnet18.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

// Small nets with weights that are tied, shared, unused or frozen.

namespace cairn::testing {

/// Linear layers of one width: nothing but parameters and activations.
struct TanhStack : torch::nn::Module {
  TanhStack(int depth, std::int64_t width) {
    for (int i = 0; i < depth; ++i) {
      layers->push_back(torch::nn::Linear(width, width));
    }
    register_module("layers", layers);
  }
  at::Tensor forward(at::Tensor x) {
    for (const auto& layer : *layers) {
      x = at::tanh(layer->as<torch::nn::Linear>()->forward(x));
    }
    return x;
  }
  torch::nn::ModuleList layers;
};

struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(std::int64_t width) {
    norm1 = register_module("norm1", norm(width));
    qkv = register_module("qkv", torch::nn::Linear(width, 3 * width));
    out = register_module("out", torch::nn::Linear(width, width));
    norm2 = register_module("norm2", norm(width));
    up = register_module("up", torch::nn::Linear(width, 4 * width));
    down = register_module("down", torch::nn::Linear(4 * width, width));
  }
  static torch::nn::LayerNorm norm(std::int64_t width) {
    return torch::nn::LayerNorm(torch::nn::LayerNormOptions({width}));
  }
  at::Tensor forward(at::Tensor x) {
    constexpr std::int64_t heads = 2;
    const auto rows = x.size(0);
    const auto length = x.size(1);
    const auto width = x.size(2);
    const auto parts = qkv(norm1(x))
                           .view({rows, length, 3, heads, width / heads})
                           .permute({2, 0, 3, 1, 4});
    const auto mixed = at::scaled_dot_product_attention(
        parts[0],
        parts[1],
        parts[2],
        {},
        0.0,
        true);
    x = x + out(mixed.transpose(1, 2).reshape({rows, length, width}));
    return x + down(at::gelu(up(norm2(x))));
  }
  torch::nn::LayerNorm norm1{nullptr}, norm2{nullptr};
  torch::nn::Linear qkv{nullptr}, out{nullptr}, up{nullptr}, down{nullptr};
};
TORCH_MODULE(Block);

/// A GPT whose head is its embedding.
struct TinyGpt : torch::nn::Module {
  TinyGpt() {
    embedding = register_module("embedding", torch::nn::Embedding(64, 16));
    position = register_module("position", torch::nn::Embedding(8, 16));
    for (int i = 0; i < 2; ++i) {
      blocks->push_back(Block(16));
    }
    register_module("blocks", blocks);
    norm = register_module("norm", BlockImpl::norm(16));
    const torch::NoGradGuard no_grad;
    embedding->weight.mul_(0.2);
  }
  at::Tensor forward(const at::Tensor& tokens) {
    at::Tensor x = embedding(tokens) +
        position(at::arange(tokens.size(1), tokens.options()));
    for (const auto& block : *blocks) {
      x = block->as<BlockImpl>()->forward(x);
    }
    return at::linear(norm(x), embedding->weight);
  }
  torch::nn::Embedding embedding{nullptr}, position{nullptr};
  torch::nn::ModuleList blocks;
  torch::nn::LayerNorm norm{nullptr};
};

/// An MLP that uses one matrix twice (registered under two names), another not
/// at all, and leaves a third as it is.
struct OddMlp : torch::nn::Module {
  OddMlp() {
    embedding = register_module("embedding", torch::nn::Embedding(64, 12));
    shared = register_module("shared", torch::nn::Linear(12, 12));
    register_module("shared_again", shared);
    unused = register_module("unused", torch::nn::Linear(12, 5));
    frozen = register_module("frozen", torch::nn::Linear(12, 12));
    frozen->weight.requires_grad_(false);
    scale = register_parameter("scale", at::ones({}));
    head = register_module("head", torch::nn::Linear(12, 64));
  }
  at::Tensor forward(const at::Tensor& tokens) {
    at::Tensor x = embedding(tokens);
    x = at::tanh(shared(x));
    x = frozen(x) * scale;
    x = at::tanh(shared(x));
    return head(x);
  }
  torch::nn::Embedding embedding{nullptr};
  torch::nn::Linear shared{nullptr}, unused{nullptr}, frozen{nullptr},
      head{nullptr};
  at::Tensor scale;
};

/// Takes another branch every other time, so that new gradients appear and the
/// order of uses changes.
struct BranchingMlp : torch::nn::Module {
  BranchingMlp() {
    embedding = register_module("embedding", torch::nn::Embedding(64, 12));
    left = register_module("left", torch::nn::Linear(12, 12));
    right = register_module("right", torch::nn::Linear(12, 12));
    head = register_module("head", torch::nn::Linear(12, 64));
  }
  at::Tensor forward(const at::Tensor& tokens) {
    const bool to_the_left = tokens[0][0].item<std::int64_t>() % 2 == 0;
    const at::Tensor x = embedding(tokens);
    return head(at::tanh(to_the_left ? left(x) : right(left(x))));
  }
  torch::nn::Embedding embedding{nullptr};
  torch::nn::Linear left{nullptr}, right{nullptr}, head{nullptr};
};

/// ResNet-18, on pictures made of the tokens.
struct TinyResNet : torch::nn::Module {
  TinyResNet() { net = register_module("net", models::ResNet18(8 * 64, 4)); }
  at::Tensor forward(const at::Tensor& tokens) {
    const at::Tensor waves = at::arange(1, 3 * 16 * 16 + 1, at::kFloat) * 0.01;
    const at::Tensor pictures = at::sin(
        tokens.to(at::kFloat).mean(1, true) *
        waves.to(tokens.device())); // [rows, 3 * 16 * 16]
    return net(pictures.view({-1, 3, 16, 16})).view({-1, 8, 64});
  }
  models::ResNet18 net{nullptr};
};

inline at::Tensor token_loss(
    const at::Tensor& logits,
    const at::Tensor& targets) {
  return torch::nn::functional::cross_entropy(
      logits.to(at::kFloat).flatten(0, 1),
      targets.flatten());
}

} // namespace cairn::testing
