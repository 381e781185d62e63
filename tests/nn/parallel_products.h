#pragma once

#include <ATen/ATen.h>
#include <cairn/nn/tensor_parallel.h>
#include <gtest/gtest.h>
#include <torch/utils.h>

#include <map>
#include <string>

namespace cairn::testing {

inline at::Tensor numbers(at::IntArrayRef shape, double step) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) {
    count *= size;
  }
  return at::sin(at::arange(count, at::kFloat) * step).view(shape);
}

/// An MLP of two weights cut by rows and one cut by columns, which the ranks of
/// a group divide, beside the same in one process.
class Products {
 public:
  struct Sizes {
    std::int64_t ranks = 2;
    std::int64_t tokens = 2; ///< of each of the two rows of the batch
    std::int64_t hidden = 5;
    std::int64_t wide = 6; ///< columns of each rank
    double tolerance = 1e-5;
    at::TensorOptions options = at::kFloat;
  };

  explicit Products(Sizes sizes) : sizes_(std::move(sizes)) {
    const std::int64_t wide = sizes_.wide * sizes_.ranks;
    add("x", {2, sizes_.tokens, sizes_.hidden}, 0.7);
    add("gate", {wide, sizes_.hidden}, 1.3);
    add("up", {wide, sizes_.hidden}, 2.1);
    add("gate_bias", {wide}, 0.9);
    add("up_bias", {wide}, 0.4);
    add("down", {sizes_.hidden, wide}, 1.7);
    add("down_bias", {sizes_.hidden}, 3.1);
    add("outer", {2, sizes_.tokens, sizes_.hidden}, 0.33);
  }

  /// A rank's share of tokens: a stretch of all tokens of the batch.
  static at::Tensor share(
      const at::Tensor& whole,
      const distributed::ProcessGroup& group) {
    const std::int64_t tokens = 2 * whole.size(1) / group.size();
    return whole.reshape({-1, whole.size(2)})
        .narrow(0, tokens * group.rank(), tokens)
        .view({2, -1, whole.size(2)});
  }

  void compare(const distributed::ProcessGroup& group, nn::TokenSplit tokens)
      const {
    const bool split = tokens != nn::TokenSplit::none;
    const auto part = [&](const std::string& name, const at::Tensor& whole) {
      if (name == "x" || name == "outer" || name == "result") {
        return split ? share(whole, group) : whole;
      }
      if (name == "down_bias") {
        return whole;
      }
      return whole.narrow(
          name == "down" ? 1 : 0,
          sizes_.wide * group.rank(),
          sizes_.wide);
    };
    std::map<std::string, at::Tensor> own;
    for (const auto& [name, whole] : all_) {
      own[name] = part(name, whole)
                      .clone(at::MemoryFormat::Contiguous)
                      .requires_grad_(name != "outer");
    }
    const auto wide = nn::column_linear(
        own.at("x"),
        {own.at("gate"), own.at("up")},
        {own.at("gate_bias"), own.at("up_bias")},
        group,
        tokens);
    const at::Tensor result = nn::row_linear(
        wide[0] * wide[1],
        own.at("down"),
        own.at("down_bias"),
        group,
        tokens);
    result.backward(own.at("outer"));
    if (split) { // each rank has the bias's gradient of its own tokens
      group.all_reduce(own.at("down_bias").grad()).wait();
    }
    const auto wanted = in_one_process();
    expect(result.detach(), part("result", wanted.at("result")), "result");
    for (const auto& [name, tensor] : own) {
      if (name != "outer") {
        expect(tensor.grad(), part(name, wanted.at(name)), name);
      }
    }
  }

 private:
  void add(const std::string& name, at::IntArrayRef shape, double step) {
    all_[name] = numbers(shape, step).to(sizes_.options);
  }

  /// The result and the gradients, in double.
  std::map<std::string, at::Tensor> in_one_process() const {
    std::map<std::string, at::Tensor> given;
    for (const auto& [name, whole] : all_) {
      given[name] = whole.to(at::kDouble).requires_grad_(name != "outer");
    }
    const auto wide = [&](const std::string& name) {
      return at::linear(
          given.at("x"),
          given.at(name),
          given.at(name + "_bias"));
    };
    const at::Tensor result = at::linear(
        wide("gate") * wide("up"),
        given.at("down"),
        given.at("down_bias"));
    result.backward(given.at("outer"));
    std::map<std::string, at::Tensor> wanted{{"result", result.detach()}};
    for (const auto& [name, tensor] : given) {
      if (name != "outer") {
        wanted[name] = tensor.grad();
      }
    }
    return wanted;
  }

  void expect(
      const at::Tensor& got,
      const at::Tensor& wanted,
      const std::string& name) const {
    EXPECT_EQ(got.sizes(), wanted.sizes()) << name;
    const double error =
        (got.to(at::kDouble) - wanted).abs().max().item<double>();
    const double largest = wanted.abs().max().item<double>();
    EXPECT_LE(error, sizes_.tolerance * (1 + largest)) << name;
  }

  Sizes sizes_;
  std::map<std::string, at::Tensor> all_;
};

} // namespace cairn::testing
