#include "kernels/internal/cuda/grouped_product.h"
#include "kernels/share_table.h"
#include "nn/linear/gpu_product.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <cairn/base/error.h>
#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <vector>

// matrix_kernels_bench
//
// The products of matrices of GPT-2 and of a Llama of 1B, in bf16, as a
// training step computes them: by cuBLASLt, by our own kernel for experts, and
// cuDNN's attention. A table in Markdown: the time of each, its multiplications
// and additions in a second, and the share that this is of 790 TFLOP/s, which
// large products reach on an H200. Of causal attention half of the square is
// counted.

namespace {

using namespace cairn;
using at::Tensor;
using bench::made;
using bench::ShareTable;
namespace cuda = kernels::cuda;

constexpr double most = 790e12;
constexpr std::int64_t words = 50304;
constexpr std::int64_t scored_at_once = 8192; ///< tokens whose loss is computed

struct Model {
  const char* name;
  std::int64_t batch, tokens; ///< samples of a step and tokens of each
  std::int64_t heads, groups, size;
  std::int64_t wide; ///< columns of the feed-forward part
  bool gelu;         ///< and biases

  std::int64_t hidden() const { return heads * size; }
};

constexpr Model models[] = {
    {"124M", 64, 1024, 12, 12, 64, 3072, true},
    {"350M", 32, 1024, 16, 16, 64, 4096, true},
    {"774M", 16, 1024, 20, 20, 64, 5120, true},
    {"1.5B", 16, 1024, 25, 25, 64, 6400, true},
    {"Llama 1B", 8, 2048, 32, 8, 64, 8192, false}};

template <class Result>
void computed(const Result& result, const char* what) {
  if (!result) {
    throw InternalError({.what = "cuBLASLt does not take it", .where = what});
  }
}

/// A linear layer, and what its products have in them besides.
struct Layer {
  enum class Does { nothing, gelu, gelu_slope };
  const char* name;
  std::int64_t rows, in, out;
  bool bias;
  Does forward = Does::nothing;
  Does backward = Does::nothing; ///< GELU before it: its slope
};

void products(const ShareTable& table, const char* model, const Layer& layer) {
  const Tensor x = made({layer.rows, layer.in});
  const Tensor gradient = made({layer.rows, layer.out});
  const Tensor weight = made({layer.out, layer.in});
  const Tensor bias = layer.bias ? made({layer.out}) : Tensor();
  const Tensor sums = made({layer.rows, layer.in});
  const Tensor of_weight = at::zeros_like(weight);
  const double work = 2 * static_cast<double>(layer.rows) *
      static_cast<double>(layer.in * layer.out);
  const std::string shape =
      fmt::format("{} x {} x {}", layer.rows, layer.in, layer.out);
  const auto row = [&](const char* form, const auto& multiply) {
    const std::string name = fmt::format("{}, {}{}", model, layer.name, form);
    table.row(name.c_str(), shape, work, [&] {
      computed(multiply(), name.c_str());
    });
  };
  if (layer.forward == Layer::Does::gelu) {
    row(", bias and GELU",
        [&] { return nn::gpu_product_gelu(x, weight.t(), bias); });
  } else {
    row(layer.bias ? ", bias" : "",
        [&] { return nn::gpu_product(x, weight.t(), bias); });
  }
  if (layer.backward == Layer::Does::gelu_slope) {
    row(": gradient of its input, GELU's slope",
        [&] { return nn::gpu_product_gelu_gradient(gradient, weight, sums); });
  } else {
    row(": gradient of its input",
        [&] { return nn::gpu_product(gradient, weight, {}); });
  }
  row(": gradient of its weight, added", [&] {
    return nn::gpu_product_into(of_weight, gradient.t(), x, nn::Into::add);
  });
}

void products(const ShareTable& table, const Model& of) {
  using Does = Layer::Does;
  const std::int64_t rows = of.batch * of.tokens;
  const std::int64_t hidden = of.hidden();
  const std::int64_t joined = (of.heads + 2 * of.groups) * of.size;
  const Does gelu = of.gelu ? Does::gelu : Does::nothing;
  const Does slope = of.gelu ? Does::gelu_slope : Does::nothing;
  for (const Layer& layer : std::vector<Layer>{
           {"queries, keys, values", rows, hidden, joined, of.gelu},
           {"attention's output", rows, hidden, hidden, of.gelu},
           {"up", rows, hidden, of.wide, of.gelu, gelu},
           {"down", rows, of.wide, hidden, of.gelu, Does::nothing, slope},
           {"scores of words", scored_at_once, hidden, words, false}}) {
    products(table, of.name, layer);
  }
}

void attention(const ShareTable& table, const Model& of) {
  const auto heads = [&](std::int64_t count) {
    return made({of.batch, of.tokens, count, of.size}).transpose(1, 2);
  };
  const Tensor query = heads(of.heads);
  const Tensor key = heads(of.groups);
  const Tensor value = heads(of.groups);
  const Tensor gradient = heads(of.heads);
  const auto attended = [&] {
    return at::_scaled_dot_product_cudnn_attention(
        query,
        key,
        value,
        {},
        /*compute_log_sumexp=*/true,
        /*dropout_p=*/0,
        /*is_causal=*/true);
  };
  const auto found = attended();
  const std::string shape =
      fmt::format("{} x {} x {} x {}", of.batch, of.heads, of.tokens, of.size);
  const double work = 2 * static_cast<double>(query.numel() * of.tokens);
  table.row(fmt::format("{}, attention", of.name).c_str(), shape, work, [&] {
    attended();
  });
  table.row(
      fmt::format("{}, attention backward", of.name).c_str(),
      shape,
      2.5 * work,
      [&] {
        at::_scaled_dot_product_cudnn_attention_backward(
            gradient,
            query,
            key,
            value,
            std::get<0>(found),
            std::get<1>(found),
            std::get<6>(found),
            std::get<7>(found),
            {},
            {},
            {},
            of.tokens,
            of.tokens,
            /*dropout_p=*/0,
            /*is_causal=*/true);
      });
}

/// Rows of experts, which all have as many.
struct Experts {
  std::int64_t rows, experts;
  static constexpr std::int64_t hidden = 1024;
  static constexpr std::int64_t wide = 4096;
};

void experts(const ShareTable& table, const Experts& of) {
  const Tensor ends = at::arange(
      of.rows / of.experts,
      of.rows + 1,
      of.rows / of.experts,
      at::TensorOptions(at::kCUDA).dtype(at::kInt));
  const cuda::ProductGroups groups{
      of.rows,
      of.experts,
      ends.const_data_ptr<std::int32_t>()};
  const Tensor x = made({of.rows, of.hidden});
  const Tensor wide = made({of.rows, of.wide});
  const Tensor sums = made({of.rows, of.wide});
  const Tensor weight = made({of.experts, of.wide, of.hidden});
  const Tensor of_weight = at::zeros_like(weight);
  const Tensor bias = made({of.experts, of.wide});
  const Tensor parts =
      bench::space({cuda::product_parts(groups), of.wide}, at::kFloat);
  const double work = 2 * static_cast<double>(of.rows) *
      static_cast<double>(of.hidden * of.wide);
  const std::string shape = fmt::format("{} rows of {}", of.rows, of.experts);
  cuda::RowsProduct up{
      .groups = groups,
      .columns = of.wide,
      .depth = of.hidden,
      .left = x.const_data_ptr(),
      .right = weight.const_data_ptr(),
      .transposed = true,
      .result = wide.mutable_data_ptr(),
      .bias = bias.const_data_ptr(),
      .sums = sums.mutable_data_ptr()};
  const auto row = [&](const char* name, const auto& product) {
    table.row(name, shape, work, [&] {
      bench::started(cuda::multiply(product, bench::stream()));
    });
  };
  up.finish = cuda::GroupFinish::gelu;
  row("experts, up, bias and GELU", up);
  up.finish = cuda::GroupFinish::add_bias;
  row("experts, up, bias", up);
  cuda::RowsProduct slope = up;
  slope.transposed = false; // the weight of the layer after
  slope.finish = cuda::GroupFinish::gelu_gradient;
  slope.bias = nullptr;
  slope.parts = bench::floats(parts);
  row("experts, gradient of wide rows, GELU's slope, sums", slope);
  row("experts, down, bias",
      cuda::RowsProduct{
          .groups = groups,
          .columns = of.hidden,
          .depth = of.wide,
          .left = wide.const_data_ptr(),
          .right = weight.const_data_ptr(),
          .transposed = true,
          .result = x.mutable_data_ptr(),
          .finish = cuda::GroupFinish::add_bias,
          .bias = bias.const_data_ptr()});
  row("experts, gradient of their input",
      cuda::RowsProduct{
          .groups = groups,
          .columns = of.hidden,
          .depth = of.wide,
          .left = wide.const_data_ptr(),
          .right = weight.const_data_ptr(),
          .result = x.mutable_data_ptr()});
  for (const bool add : {false, true}) {
    row(add ? "experts, gradient of a weight, added"
            : "experts, gradient of a weight",
        cuda::WeightsProduct{
            .groups = groups,
            .out = of.wide,
            .in = of.hidden,
            .left = wide.const_data_ptr(),
            .right = x.const_data_ptr(),
            .result = of_weight.mutable_data_ptr(),
            .add = add});
  }
}

} // namespace

int main() {
  try {
    const at::NoGradGuard no_grad;
    const ShareTable table(ShareTable::Of::operations, most);
    for (const Model& model : models) {
      products(table, model);
      attention(table, model);
    }
    if (cuda::has_grouped_products()) {
      for (const Experts& of :
           {Experts{16384, 8},
            Experts{16384, 128},
            Experts{65536, 8},
            Experts{65536, 128}}) {
        experts(table, of);
      }
    }
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "matrix_kernels_bench: {}\n", error.what());
    return 1;
  }
}
