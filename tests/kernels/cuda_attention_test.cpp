// Attention of 16 bits with dropped weights, forward and backward, against
// plain operators in double.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "kernels/cuda_test.h"
#include "kernels/internal/cpu/dropout.h"
#include "kernels/internal/cuda/attention.h"

namespace cairn::kernels::cuda_attention_test {
namespace {

using at::Tensor;
using cuda_test::device;
using cuda_test::exact;
using cuda_test::started;
using cuda_test::stream;
using cuda_test::Type;

/// One case: shapes, and what is hidden or dropped.
struct Case {
  std::string name;
  std::int64_t batch = 1;
  std::int64_t queries = 64;
  std::int64_t keys = 64;
  std::int64_t heads = 1;
  std::int64_t groups = 1;
  std::int64_t size = 64;
  bool causal = false;
  std::int64_t first_query = 0;
  std::int64_t first_key = 0;
  double dropout = 0;
  std::int64_t first_head = 0;
  at::ScalarType mask = at::kLong; ///< kLong: none
  bool documents = false;
  bool by_distance = false;
  bool by_key = false;
};

/// Inputs on the device and the same in double on the CPU.
struct Inputs {
  Tensor query, key, value, gradient; ///< [batch, tokens, heads, size]
  Tensor mask;
  Tensor query_documents, key_documents;
  Tensor samples;
  Tensor by_distance, by_key;
};

constexpr std::uint64_t key_of_draws = 0x0123456789abcdef;

Inputs inputs_of(const Case& x, const Type& type) {
  // Queries, keys and values have steps of their own, like those of a joined
  // projection.
  const auto part = [&](std::int64_t tokens, std::int64_t heads) {
    return cuda_test::random({x.batch, tokens, heads + 1, x.size}, type)
        .narrow(2, 1, heads);
  };
  Inputs result{
      part(x.queries, x.heads),
      part(x.keys, x.groups),
      part(x.keys, x.groups),
      part(x.queries, x.heads),
      {},
      {},
      {},
      {},
      {},
      {}};
  if (x.by_distance) {
    result.by_distance =
        at::randn({x.heads, x.queries + x.keys - 1}).to(device);
  }
  if (x.by_key) {
    result.by_key = at::randn({x.batch, x.keys})
                        .masked_fill(
                            at::rand({x.batch, x.keys}) < 0.3,
                            -std::numeric_limits<double>::infinity())
                        .to(device);
  }
  if (x.mask == at::kBool) {
    result.mask = at::rand({x.batch, 1, x.queries, x.keys}) < 0.7;
    result.mask.select(2, x.queries / 2).fill_(false);
  } else if (x.mask != at::kLong) {
    result.mask = at::randn({1, x.heads, x.queries, x.keys}).to(x.mask);
    result.mask.select(3, x.keys / 2)
        .fill_(-std::numeric_limits<double>::infinity());
  }
  if (result.mask.defined()) {
    result.mask = result.mask.to(device);
  }
  if (x.documents) {
    const auto numbers = [&](std::int64_t first, std::int64_t count) {
      return ((at::arange(first, first + count, at::kInt) / 23).to(at::kInt) +
              at::arange(x.batch, at::kInt).unsqueeze(1))
          .contiguous()
          .to(device);
    };
    result.query_documents = numbers(x.first_query, x.queries);
    result.key_documents = numbers(x.first_key, x.keys);
  }
  result.samples =
      (at::arange(x.batch, at::kLong) * ((std::int64_t{1} << 33U) + 7) + 3)
          .to(device);
  return result;
}

double scale_of(const Case& x) {
  return 1.3 / std::sqrt(static_cast<double>(x.size));
}

DropoutRows place_of(const Case& x) {
  DropoutRows place{.heads = x.heads, .tokens = x.first_query + x.queries};
  place.early = place.tokens;
  place.first_head = x.first_head;
  place.key = key_of_draws;
  place.drop(x.dropout);
  return place;
}

/// Factors of the weights, [batch, heads, queries, keys], by the CPU's kernel
/// on the whole matrix.
Tensor factors_of(const Case& x, const Inputs& inputs) {
  DropoutRows place = place_of(x);
  const Tensor samples = inputs.samples.cpu();
  const Tensor ones = at::ones(
      {x.batch, x.heads, place.tokens, x.first_key + x.keys},
      at::kFloat);
  Tensor result = at::empty_like(ones);
  place.columns = ones.size(3);
  place.rows = ones.numel() / place.columns;
  place.samples = samples.const_data_ptr<std::int64_t>();
  cpu::dropout_rows(
      place,
      ones.const_data_ptr(),
      result.mutable_data_ptr(),
      0,
      place.rows);
  return result.narrow(2, x.first_query, x.queries)
      .narrow(3, x.first_key, x.keys)
      .to(at::kDouble);
}

struct Outcome {
  Tensor output, log_sum, of_query, of_key, of_value;
  Tensor of_added; ///< undefined where nothing is added
  Tensor of_distances;
};

/// The twin: libtorch's operators on whole matrices, in double.
Outcome by_operators(const Case& x, const Inputs& inputs) {
  const auto leaf = [](const Tensor& given) {
    return exact(given).contiguous().requires_grad_();
  };
  const Tensor query = leaf(inputs.query);
  const Tensor key = leaf(inputs.key);
  const Tensor value = leaf(inputs.value);
  const auto heads_first = [&](const Tensor& t) {
    return t.repeat_interleave(x.heads / t.size(2), 2).transpose(1, 2);
  };
  Tensor scores =
      at::matmul(heads_first(query), heads_first(key).transpose(2, 3)) *
      scale_of(x);
  const double hidden = -std::numeric_limits<double>::infinity();
  std::vector<Tensor> leaves{query, key, value};
  if (x.mask == at::kBool) {
    scores = scores.masked_fill(inputs.mask.cpu().logical_not(), hidden);
  } else if (inputs.mask.defined()) {
    leaves.push_back(leaf(inputs.mask.expand(scores.sizes())));
    scores = scores + leaves.back();
  }
  if (x.by_distance) {
    leaves.push_back(leaf(inputs.by_distance));
    const Tensor distances = at::arange(x.keys).unsqueeze(0) -
        at::arange(x.queries).unsqueeze(1) + x.queries - 1;
    scores = scores +
        leaves.back()
            .index_select(1, distances.flatten())
            .view({x.heads, x.queries, x.keys});
  }
  if (x.by_key) {
    scores = scores + exact(inputs.by_key).unsqueeze(1).unsqueeze(1);
  }
  if (x.causal) {
    const Tensor later =
        at::arange(x.first_key, x.first_key + x.keys).unsqueeze(0) >
        at::arange(x.first_query, x.first_query + x.queries).unsqueeze(1);
    scores = scores.masked_fill(later, hidden);
  }
  if (x.documents) {
    scores = scores.masked_fill(
        (inputs.query_documents.cpu().unsqueeze(2) !=
         inputs.key_documents.cpu().unsqueeze(1))
            .unsqueeze(1),
        hidden);
  }
  const Tensor weights = at::_safe_softmax(scores, -1);
  const Tensor output =
      at::matmul(weights * factors_of(x, inputs), heads_first(value))
          .transpose(1, 2);
  const auto gradients =
      torch::autograd::grad({output}, leaves, {exact(inputs.gradient)});
  return {
      output.detach(),
      scores.detach().logsumexp(-1),
      gradients[0],
      gradients[1],
      gradients[2],
      inputs.mask.defined() && x.mask != at::kBool ? gradients[3] : Tensor(),
      x.by_distance ? gradients.back() : Tensor()};
}

cuda::Heads heads_of(const Tensor& x) {
  return {x.const_data_ptr(), x.stride(0), x.stride(1), x.stride(2)};
}

cuda::HeadsTarget target_of(const Tensor& x) {
  return {x.mutable_data_ptr(), x.stride(0), x.stride(1), x.stride(2)};
}

cuda::Attention attention_of(
    const Case& x,
    const Inputs& inputs,
    const Type& type) {
  const DropoutRows place = place_of(x);
  cuda::Attention result{};
  result.batch = x.batch;
  result.queries = x.queries;
  result.keys = x.keys;
  result.heads = x.heads;
  result.groups = x.groups;
  result.size = x.size;
  result.element = type.element;
  result.scale = static_cast<float>(scale_of(x));
  result.first_query = x.first_query;
  result.first_key = x.first_key;
  result.causal = x.causal;
  if (inputs.mask.defined()) {
    const Tensor mask =
        inputs.mask.expand({x.batch, x.heads, x.queries, x.keys});
    const bool visible = x.mask == at::kBool;
    result.mask = {
        .kind = visible ? cuda::ScoreMask::Kind::visible
                        : cuda::ScoreMask::Kind::added,
        .data = mask.const_data_ptr(),
        .element = x.mask == at::kBFloat16 ? Element::bf16 : Element::fp32,
        .batch_step = mask.stride(0),
        .head_step = mask.stride(1),
        .query_step = mask.stride(2),
        .key_step = mask.stride(3)};
  }
  if (x.documents) {
    result.query_documents =
        inputs.query_documents.const_data_ptr<std::int32_t>();
    result.key_documents = inputs.key_documents.const_data_ptr<std::int32_t>();
  }
  if (x.by_distance) {
    result.placed.by_distance = inputs.by_distance.const_data_ptr<float>();
  }
  if (x.by_key) {
    result.placed.by_key = inputs.by_key.const_data_ptr<float>();
  }
  result.dropout = {
      inputs.samples.const_data_ptr<std::int64_t>(),
      x.first_head,
      key_of_draws,
      place.threshold,
      place.scale};
  return result;
}

Outcome by_kernels(const Case& x, const Inputs& inputs, const Type& type) {
  const cuda::Attention attention = attention_of(x, inputs, type);
  const cuda::HeadsOfAll heads{
      heads_of(inputs.query),
      heads_of(inputs.key),
      heads_of(inputs.value)};
  EXPECT_TRUE(cuda::can_attend(attention, heads));
  // All of it must be written.
  const auto poisoned = [&](const Tensor& like) {
    return at::full(like.sizes(), NAN, like.options());
  };
  const auto floats =
      at::full({x.batch, x.heads, x.queries}, NAN, at::TensorOptions(device));
  Outcome result{
      poisoned(inputs.query),
      floats,
      poisoned(inputs.query),
      poisoned(inputs.key),
      poisoned(inputs.value),
      inputs.mask.defined() && x.mask != at::kBool
          ? at::zeros(
                {x.batch, x.heads, x.queries, x.keys},
                inputs.query.options())
          : Tensor(),
      x.by_distance ? at::full(
                          {cuda::distance_parts(attention),
                           x.heads,
                           x.queries + x.keys - 1},
                          NAN,
                          at::TensorOptions(device))
                    : Tensor()};
  started(cuda::attend(
      attention,
      heads,
      target_of(result.output),
      result.log_sum.mutable_data_ptr<float>(),
      stream()));
  const Tensor of_rows = at::full(
      {x.batch, x.heads, x.queries, 2},
      NAN,
      at::TensorOptions(device));
  started(cuda::attend_backward(
      attention,
      heads,
      {heads_of(result.output),
       heads_of(inputs.gradient),
       result.log_sum.const_data_ptr<float>()},
      of_rows.mutable_data_ptr<float>(),
      {target_of(result.of_query),
       target_of(result.of_key),
       target_of(result.of_value),
       result.of_added.defined() ? result.of_added.mutable_data_ptr() : nullptr,
       x.by_distance ? result.of_distances.mutable_data_ptr<float>() : nullptr},
      stream()));
  return result;
}

void expect_close(
    const Tensor& found,
    const Tensor& expected,
    double bound,
    const char* what) {
  const Tensor difference = exact(found) - expected;
  const double error = difference.norm().item<double>();
  const double size = expected.norm().item<double>();
  EXPECT_LE(error, bound * size + 1e-12) << what;
  // No single element may be wrong either.
  const double root = size / std::sqrt(static_cast<double>(expected.numel()));
  EXPECT_LE(
      difference.abs().max().item<double>(),
      20 * bound * (root + expected.abs().max().item<double>()) / 4 + 1e-12)
      << what;
}

class CudaAttention : public ::testing::TestWithParam<Case> {};

TEST_P(CudaAttention, IsThatOfOperatorsInDouble) {
  const Case& x = GetParam();
  for (const Type& type : {cuda_test::types[1], cuda_test::types[2]}) {
    SCOPED_TRACE(c10::toString(type.dtype));
    at::manual_seed(7);
    const Inputs inputs = inputs_of(x, type);
    const Outcome expected = by_operators(x, inputs);
    const Outcome found = by_kernels(x, inputs, type);
    expect_close(found.output, expected.output, type.step, "output");
    const Tensor seen = expected.log_sum.isfinite();
    EXPECT_TRUE(at::equal(exact(found.log_sum).isfinite(), seen));
    expect_close(
        exact(found.log_sum).masked_fill(seen.logical_not(), 0),
        expected.log_sum.masked_fill(seen.logical_not(), 0),
        1e-5,
        "log sum");
    expect_close(found.of_query, expected.of_query, type.step, "of query");
    expect_close(found.of_key, expected.of_key, type.step, "of key");
    expect_close(found.of_value, expected.of_value, type.step, "of value");
    if (expected.of_added.defined()) {
      expect_close(found.of_added, expected.of_added, type.step, "of added");
    }
    if (x.by_distance) {
      expect_close(
          found.of_distances.sum(0),
          expected.of_distances,
          type.step,
          "of distances");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Table,
    CudaAttention,
    ::testing::Values(
        Case{.name = "plain"},
        Case{.name = "dropped", .dropout = 0.3, .first_head = 5},
        Case{
            .name = "causal_grouped",
            .batch = 2,
            .queries = 150,
            .keys = 150,
            .heads = 6,
            .groups = 2,
            .size = 40,
            .causal = true,
            .dropout = 0.1},
        Case{
            .name = "part_of_a_ring",
            .batch = 2,
            .queries = 37,
            .keys = 70,
            .heads = 2,
            .groups = 1,
            .causal = true,
            .first_query = 51,
            .first_key = 13,
            .dropout = 0.5,
            .first_head = 3},
        Case{
            .name = "keys_that_few_see",
            .queries = 20,
            .keys = 140,
            .causal = true,
            .first_query = 30,
            .dropout = 0.2},
        Case{
            .name = "visible",
            .batch = 2,
            .queries = 65,
            .keys = 33,
            .heads = 2,
            .groups = 2,
            .size = 8,
            .dropout = 0.2,
            .mask = at::kBool},
        Case{
            .name = "added_floats",
            .batch = 2,
            .queries = 19,
            .keys = 67,
            .heads = 2,
            .groups = 2,
            .dropout = 0.2,
            .mask = at::kFloat},
        Case{
            .name = "added_bf16_large",
            .queries = 70,
            .keys = 67,
            .heads = 2,
            .groups = 1,
            .size = 96,
            .mask = at::kBFloat16},
        Case{
            .name = "by_distance_and_key",
            .batch = 3,
            .queries = 150,
            .keys = 135,
            .heads = 2,
            .groups = 1,
            .by_distance = true,
            .by_key = true},
        Case{
            .name = "by_distance_causal_dropped",
            .batch = 2,
            .queries = 200,
            .keys = 200,
            .heads = 2,
            .groups = 2,
            .size = 96,
            .causal = true,
            .dropout = 0.2,
            .by_distance = true},
        Case{
            .name = "by_distance_of_a_part",
            .queries = 37,
            .keys = 70,
            .causal = true,
            .first_query = 51,
            .first_key = 13,
            .by_distance = true},
        Case{
            .name = "by_key",
            .batch = 2,
            .queries = 3,
            .keys = 70,
            .size = 24,
            .dropout = 0.1,
            .by_key = true},
        Case{
            .name = "documents",
            .batch = 2,
            .queries = 70,
            .keys = 70,
            .heads = 1,
            .groups = 1,
            .size = 64,
            .causal = true,
            .dropout = 0.1,
            .documents = true},
        Case{
            .name = "large_causal",
            .queries = 130,
            .keys = 130,
            .heads = 2,
            .groups = 1,
            .size = 128,
            .causal = true,
            .dropout = 0.1},
        Case{
            .name = "one_token",
            .queries = 1,
            .keys = 1,
            .size = 16,
            .causal = true,
            .dropout = 0.5},
        Case{.name = "nothing_stays", .queries = 9, .dropout = 1}),
    [](const auto& given) { return given.param.name; });

TEST(CudaAttentionBits, AreTheSameEveryTime) {
  const Case x{
      .name = "",
      .batch = 2,
      .queries = 100,
      .keys = 100,
      .heads = 2,
      .groups = 1,
      .causal = true,
      .dropout = 0.1};
  const Type& type = cuda_test::types[2];
  const Inputs inputs = inputs_of(x, type);
  const Outcome first = by_kernels(x, inputs, type);
  const Outcome again = by_kernels(x, inputs, type);
  EXPECT_TRUE(at::equal(first.output, again.output));
  EXPECT_TRUE(at::equal(first.of_query, again.of_query));
  EXPECT_TRUE(at::equal(first.of_key, again.of_key));
  EXPECT_TRUE(at::equal(first.of_value, again.of_value));
}

TEST(CudaAttentionShapes, ThatDoNotFitAreRefused) {
  const Case x{.name = "", .size = 64};
  const Inputs inputs = inputs_of(x, cuda_test::types[2]);
  cuda::Attention attention = attention_of(x, inputs, cuda_test::types[2]);
  const cuda::HeadsOfAll heads{
      heads_of(inputs.query),
      heads_of(inputs.key),
      heads_of(inputs.value)};
  ASSERT_TRUE(cuda::can_attend(attention, heads));
  for (const std::int64_t size : {0, 12, 136}) {
    attention.size = size;
    EXPECT_FALSE(cuda::can_attend(attention, heads)) << size;
  }
  attention.size = 64;
  attention.element = Element::fp32;
  EXPECT_FALSE(cuda::can_attend(attention, heads));
  attention.element = Element::bf16;
  cuda::HeadsOfAll uneven = heads;
  uneven.key.token_step += 4;
  EXPECT_FALSE(cuda::can_attend(attention, uneven));
}

} // namespace
} // namespace cairn::kernels::cuda_attention_test
