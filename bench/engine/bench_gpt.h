#pragma once

#include <ATen/Functions.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <cstdint>

namespace cairn::bench {

struct GptShape {
  std::int64_t layers = 6;
  std::int64_t width = 384;
  std::int64_t heads = 6;
  std::int64_t vocabulary = 4096;
  std::int64_t context = 256;
};

struct GptBlockImpl : torch::nn::Module {
  explicit GptBlockImpl(const GptShape& shape) : heads(shape.heads) {
    const std::int64_t width = shape.width;
    const torch::nn::LayerNormOptions norm({width});
    norm1 = register_module("norm1", torch::nn::LayerNorm(norm));
    qkv = register_module("qkv", torch::nn::Linear(width, 3 * width));
    out = register_module("out", torch::nn::Linear(width, width));
    norm2 = register_module("norm2", torch::nn::LayerNorm(norm));
    up = register_module("up", torch::nn::Linear(width, 4 * width));
    down = register_module("down", torch::nn::Linear(4 * width, width));
  }
  at::Tensor forward(at::Tensor x) {
    const auto rows = x.size(0);
    const auto length = x.size(1);
    const auto width = x.size(2);
    const auto split = qkv(norm1(x)).split(width, 2);
    const auto head = [&](const at::Tensor& part) {
      return part.view({rows, length, heads, width / heads}).transpose(1, 2);
    };
    const auto mixed = at::scaled_dot_product_attention(
        head(split[0]),
        head(split[1]),
        head(split[2]),
        {},
        0.0,
        true);
    x = x + out(mixed.transpose(1, 2).contiguous().view({rows, length, width}));
    return x + down(at::gelu(up(norm2(x))));
  }
  std::int64_t heads;
  torch::nn::LayerNorm norm1{nullptr}, norm2{nullptr};
  torch::nn::Linear qkv{nullptr}, out{nullptr}, up{nullptr}, down{nullptr};
};
TORCH_MODULE(GptBlock);

/// GPT-2's architecture, as the peers run it: tied head, no dropout.
struct BenchGpt : torch::nn::Module {
  explicit BenchGpt(const GptShape& shape) {
    token = register_module(
        "token",
        torch::nn::Embedding(shape.vocabulary, shape.width));
    position = register_module(
        "position",
        torch::nn::Embedding(shape.context, shape.width));
    for (std::int64_t i = 0; i < shape.layers; ++i) {
      blocks->push_back(GptBlock(shape));
    }
    register_module("blocks", blocks);
    norm = register_module(
        "norm",
        torch::nn::LayerNorm(torch::nn::LayerNormOptions({shape.width})));
    const torch::NoGradGuard no_grad;
    for (at::Tensor& parameter : parameters()) {
      if (parameter.dim() == 2) {
        torch::nn::init::normal_(parameter, 0, 0.02);
      }
    }
  }
  at::Tensor forward(const at::Tensor& tokens, const at::Tensor& targets) {
    at::Tensor x =
        token(tokens) + position(at::arange(tokens.size(1), tokens.options()));
    for (const auto& block : *blocks) {
      x = block->as<GptBlockImpl>()->forward(x);
    }
    const at::Tensor logits = at::linear(norm(x), token->weight);
    return torch::nn::functional::cross_entropy(
        logits.flatten(0, 1).to(at::kFloat),
        targets.flatten());
  }
  torch::nn::Embedding token{nullptr}, position{nullptr};
  torch::nn::ModuleList blocks;
  torch::nn::LayerNorm norm{nullptr};
};

} // namespace cairn::bench
