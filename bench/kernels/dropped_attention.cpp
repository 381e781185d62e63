#include <ATen/DeviceAccelerator.h>
#include <ATen/Functions.h>
#include <cairn/base/error.h>
#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <tuple>

#include "../best_seconds.h"
#include "nn/attention/fused_attention.h"

// dropped_attention_bench
//
// Attention with dropped weights by our own kernel, beside libtorch's flash
// attention, which draws other weights, and cuDNN's with and without dropout.
// Causal, bf16. A table in Markdown: milliseconds forward and backward.

namespace {

using namespace cairn;
using at::Tensor;

constexpr int calls = 10; ///< queued at a time, so that launching is not timed

struct Shape {
  std::int64_t batch, heads, tokens, size;
};

double milliseconds(const std::function<void()>& work) {
  work();
  at::accelerator::synchronizeDevice(0);
  return 1e3 *
      bench::best_seconds(
             0.1,
             [&] {
               for (int i = 0; i < calls; ++i) {
                 work();
               }
               at::accelerator::synchronizeDevice(0);
             }) /
      calls;
}

/// Queries, keys, values and the gradient of the result, [batch, tokens, heads,
/// size].
struct Inputs {
  explicit Inputs(const Shape& shape) {
    for (Tensor* each : {&query, &key, &value, &gradient}) {
      *each = at::randn(
          {shape.batch, shape.tokens, shape.heads, shape.size},
          at::TensorOptions(at::kCUDA).dtype(at::kBFloat16));
    }
  }
  Tensor query, key, value, gradient;
};

void print(
    const Shape& shape,
    const char* what,
    double dropout,
    double forward,
    double backward) {
  fmt::print(
      "| {} x {} x {} x {} | {} | {} | {:.3f} | {:.3f} |\n",
      shape.batch,
      shape.heads,
      shape.tokens,
      shape.size,
      what,
      dropout,
      forward,
      backward);
  std::fflush(stdout);
}

void measure_own(const Shape& shape, const Inputs& in, double dropout) {
  const nn::AttentionInput input{in.query, in.key, in.value};
  const nn::DroppedScores how{
      .scores =
          {.causal = true,
           .scale = 1 / std::sqrt(static_cast<double>(shape.size))},
      .dropout = dropout,
      .noise = {
          .key = 7,
          .samples = at::arange(
              shape.batch,
              at::TensorOptions(at::kCUDA).dtype(at::kLong))}};
  const nn::PartialAttention whole = nn::fused_forward(input, how);
  const double forward = milliseconds([&] { nn::fused_forward(input, how); });
  const double backward =
      milliseconds([&] { nn::fused_backward(in.gradient, input, whole, how); });
  print(shape, "ours", dropout, forward, backward);
}

void measure_flash(const Shape& shape, const Inputs& in, double dropout) {
  const auto heads = [](const Tensor& x) { return x.transpose(1, 2); };
  const auto attended = [&] {
    return at::_scaled_dot_product_flash_attention(
        heads(in.query),
        heads(in.key),
        heads(in.value),
        dropout,
        /*is_causal=*/true);
  };
  const auto found = attended();
  const double forward = milliseconds([&] { attended(); });
  const double backward = milliseconds([&] {
    at::_scaled_dot_product_flash_attention_backward(
        heads(in.gradient),
        heads(in.query),
        heads(in.key),
        heads(in.value),
        std::get<0>(found),
        std::get<1>(found),
        std::get<2>(found),
        std::get<3>(found),
        shape.tokens,
        shape.tokens,
        dropout,
        /*is_causal=*/true,
        std::get<6>(found),
        std::get<7>(found));
  });
  print(shape, "flash attention", dropout, forward, backward);
}

void measure_cudnn(const Shape& shape, const Inputs& in, double dropout) {
  const auto heads = [](const Tensor& x) { return x.transpose(1, 2); };
  const auto attended = [&] {
    return at::_scaled_dot_product_cudnn_attention(
        heads(in.query),
        heads(in.key),
        heads(in.value),
        {},
        /*compute_log_sumexp=*/true,
        dropout,
        /*is_causal=*/true);
  };
  const auto found = attended();
  const double forward = milliseconds([&] { attended(); });
  const double backward = milliseconds([&] {
    at::_scaled_dot_product_cudnn_attention_backward(
        heads(in.gradient),
        heads(in.query),
        heads(in.key),
        heads(in.value),
        std::get<0>(found),
        std::get<1>(found),
        std::get<6>(found),
        std::get<7>(found),
        {},
        {},
        {},
        shape.tokens,
        shape.tokens,
        dropout,
        /*is_causal=*/true);
  });
  print(shape, "cuDNN", dropout, forward, backward);
}

} // namespace

int main() {
  try {
    fmt::print("| batch x heads x tokens x size | by | dropout | forward, ms | "
               "backward, ms |\n|---|---|---|---|---|\n");
    for (const Shape& shape :
         {Shape{64, 12, 1024, 64},
          Shape{16, 25, 1024, 64},
          Shape{16, 16, 1024, 128}}) {
      const Inputs in(shape);
      for (const double dropout : {0.0, 0.1}) {
        measure_own(shape, in, dropout);
        measure_flash(shape, in, dropout);
        measure_cudnn(shape, in, dropout);
      }
    }
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
