#pragma once

#include <ATen/ATen.h>
#include <cairn/nn/attention.h>
#include <cairn/nn/context_parallel.h>
#include <gtest/gtest.h>
#include <torch/utils.h>

#include <vector>

// Attention of ranks that share a sequence, against that of one process.

namespace cairn::nn::context_parity {

using at::Tensor;

struct Case {
  int ranks;
  ContextKind kind;
  std::int64_t heads;
  std::int64_t key_value_heads;
  at::ScalarType dtype = at::kFloat;
};

/// The output and the gradients of attention, for an outer gradient that
/// differs at every element.
struct Results {
  Tensor output;
  Tensor query;
  Tensor key;
  Tensor value;
};

template <typename Attend>
Results results_of(
    const std::vector<Tensor>& inputs,
    const Tensor& outer,
    const Attend& attention) {
  std::vector<Tensor> leaves;
  for (const Tensor& each : inputs) {
    leaves.push_back(each.detach().clone().requires_grad_());
  }
  const Tensor output = attention(leaves[0], leaves[1], leaves[2]);
  output.backward(outer);
  return {
      output.detach(),
      leaves[0].grad(),
      leaves[1].grad(),
      leaves[2].grad()};
}

/// Compares the ranks, which compute on `device`, with one process, which
/// computes the same numbers in fp32 on the CPU.
inline void compare(
    const Case& test,
    const distributed::ProcessGroup& group,
    at::Device device = at::kCPU) {
  constexpr std::int64_t sequence = 48;
  constexpr std::int64_t size = 16;
  const ContextParallel context{group, test.kind};
  torch::manual_seed(3);
  const auto made = [&](std::int64_t heads) {
    return at::randn({2, sequence, heads, size}).to(test.dtype);
  };
  const std::vector<Tensor> whole{
      made(test.heads),
      made(test.key_value_heads),
      made(test.key_value_heads)};
  const Tensor outer =
      at::randn({2, sequence, test.heads * size}).to(test.dtype);
  const double scale = 0.3;
  const Results wanted = results_of(
      {whole[0].to(at::kFloat),
       whole[1].to(at::kFloat),
       whole[2].to(at::kFloat)},
      outer.to(at::kFloat),
      [&](const auto& q, const auto& k, const auto& v) {
        return attend(q, k, v, {.causal = true, .scale = scale});
      });
  std::vector<Tensor> own;
  for (const Tensor& each : whole) {
    own.push_back(own_sequence(each, context).to(device));
  }
  const Results got = results_of(
      own,
      own_sequence(outer, context).to(device),
      [&](const auto& q, const auto& k, const auto& v) {
        return attend_in_context(
            q,
            k,
            v,
            {.causal = true, .scale = scale},
            context);
      });
  const double near = test.dtype != at::kFloat ? 3e-2
      : device.is_cpu()                        ? 2e-5
                                               : 2e-4;
  const auto expect_same = [&](const char* what, Tensor Results::*each) {
    const Tensor there = own_sequence(wanted.*each, context);
    ASSERT_EQ((got.*each).sizes(), there.sizes()) << what;
    EXPECT_EQ((got.*each).scalar_type(), test.dtype) << what;
    EXPECT_EQ((got.*each).device().type(), device.type()) << what;
    const Tensor here = (got.*each).to(at::kFloat).cpu();
    EXPECT_TRUE(at::allclose(here, there, near, near))
        << what << ": off by "
        << (here - there).abs().max().template item<double>();
  };
  expect_same("output", &Results::output);
  expect_same("query", &Results::query);
  expect_same("key", &Results::key);
  expect_same("value", &Results::value);
}

} // namespace cairn::nn::context_parity
