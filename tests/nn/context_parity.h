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
  double dropout = 0;
  bool documents = false; ///< a sample has several, which do not see each other
  std::int64_t size = 16; ///< of a head
};

/// The position at which each token's document begins, [2, sequence]. One
/// document has one token; the second sample has two long ones.
inline Tensor document_begins(std::int64_t sequence) {
  Tensor begins = at::zeros({2, sequence}, at::kLong);
  for (const std::int64_t begin : {5L, 6L, 30L, 41L}) {
    begins[0].narrow(0, begin, sequence - begin).fill_(begin);
  }
  begins[1].narrow(0, 23, sequence - 23).fill_(23);
  return begins;
}

/// The mask of documents that begin there, [2, 1, sequence, sequence].
inline Tensor mask_of(const Tensor& begins) {
  const Tensor keys = at::arange(begins.size(1), at::kLong);
  return keys.ge(begins.unsqueeze(2))
      .logical_and(keys.le(keys.unsqueeze(1)))
      .unsqueeze(1);
}

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
  const std::int64_t size = test.size;
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
  AttendOptions how{.causal = true, .scale = 0.3, .dropout = test.dropout};
  how.noise = {
      .key = 0x0123456789abcdef,
      .samples = at::tensor(std::vector<std::int64_t>{3, 1L << 40}),
      .first_head = 2};
  const Tensor begins = document_begins(sequence);
  AttendOptions alone = how;
  if (test.documents) {
    alone.mask = mask_of(begins);
  }
  const Results wanted = results_of(
      {whole[0].to(at::kFloat),
       whole[1].to(at::kFloat),
       whole[2].to(at::kFloat)},
      outer.to(at::kFloat),
      [&](const auto& q, const auto& k, const auto& v) {
        return attend(q, k, v, alone);
      });
  how.noise.samples = how.noise.samples.to(device);
  if (test.documents && test.kind == ContextKind::ring) {
    how.first_seen = own_sequence(begins, context);
  } else if (test.documents) {
    how.mask = alone.mask.to(device);
  }
  std::vector<Tensor> own;
  for (const Tensor& each : whole) {
    own.push_back(own_sequence(each, context).to(device));
  }
  const Results got = results_of(
      own,
      own_sequence(outer, context).to(device),
      [&](const auto& q, const auto& k, const auto& v) {
        return attend_in_context(q, k, v, how, context);
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
