// What the layers of a model compute on a GPU, against libtorch in higher
// precision.
#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <cairn/nn/attention.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "nn/attention/gpu_attention.h"
#include "nn/attention/head_attention.h"
#include "nn/linear/fused_or_apart.h"
#include "nn/linear/gelu_mlp.h"
#include "nn/linear/gpu_product.h"
#include "nn/linear/linear_product.h"
#include "nn/linear/swiglu_mlp.h"
#include "support/temporary_folder.h"

namespace cairn::nn::gpu_product_test {
namespace {

using at::Tensor;

Tensor random(at::IntArrayRef shape, at::ScalarType type = at::kBFloat16) {
  return at::randn(shape, at::TensorOptions(at::kCUDA)).to(type);
}

/// Compares, relative to the largest value.
void expect_near(const Tensor& found, const Tensor& expected, double bound) {
  const Tensor difference = (found.to(at::kDouble) - expected).abs().max();
  const double scale = expected.abs().max().item<double>();
  EXPECT_LE(difference.item<double>(), bound * scale);
}

using Computed = std::function<Tensor(const std::vector<Tensor>&)>;

/// Compares a result and all gradients with those in double precision.
void expect_same(
    const std::vector<Tensor>& inputs,
    const Computed& ours,
    const Computed& libtorchs) {
  std::vector<Tensor> own;
  std::vector<Tensor> exact;
  for (const Tensor& each : inputs) {
    own.push_back(
        each.defined() ? each.clone().requires_grad_(true) : Tensor());
    exact.push_back(
        each.defined() ? each.to(at::kDouble).requires_grad_(true) : Tensor());
  }
  const Tensor result = ours(own);
  const Tensor expected = libtorchs(exact);
  expect_near(result, expected, 0.02);
  const Tensor gradient = at::randn_like(result);
  result.backward(gradient);
  expected.backward(gradient.to(at::kDouble));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].defined()) {
      SCOPED_TRACE(i);
      expect_near(own[i].grad(), exact[i].grad(), 0.02);
    }
  }
}

TEST(GpuProduct, IsLibtorchsInEveryLayoutOfItsFactors) {
  at::manual_seed(1);
  for (const auto type : {at::kBFloat16, at::kHalf}) {
    for (const bool left_transposed : {false, true}) {
      for (const bool right_transposed : {false, true}) {
        const Tensor left = left_transposed ? random({128, 264}, type).t()
                                            : random({264, 128}, type);
        const Tensor right = right_transposed ? random({72, 128}, type).t()
                                              : random({128, 72}, type);
        const Tensor bias = random({72}, type);
        const Tensor expected = left.to(at::kDouble).mm(right.to(at::kDouble));
        const auto found = gpu_product(left, right, {});
        const auto with_bias = gpu_product(left, right, bias);
        ASSERT_TRUE(found.has_value());
        ASSERT_TRUE(with_bias.has_value());
        expect_near(*found, expected, 0.01);
        expect_near(*with_bias, expected + bias.to(at::kDouble), 0.01);
        for (const auto sum_type : {type, at::kFloat}) {
          const Tensor sum = random({264, 72}, sum_type);
          const Tensor before = sum.to(at::kDouble);
          ASSERT_TRUE(gpu_product_into(sum, left, right, Into::add));
          expect_near(sum, before + expected, 0.01);
          ASSERT_TRUE(gpu_product_into(sum, left, right, Into::overwrite));
          expect_near(sum, expected, 0.01);
        }
      }
    }
  }
}

TEST(GpuProduct, LeavesWhatItDoesNotTakeToLibtorch) {
  const Tensor wide = random({8, 24}, at::kFloat);
  EXPECT_FALSE(gpu_product(wide, wide.t(), {}).has_value());
  const Tensor odd = random({16, 13});
  EXPECT_FALSE(gpu_product(odd, odd.t(), {}).has_value());
  const Tensor gaps = random({16, 32}).slice(1, 0, 32, 2);
  EXPECT_FALSE(gpu_product(gaps, gaps.t(), {}).has_value());
  const Tensor none = random({0, 16});
  EXPECT_FALSE(gpu_product(none, random({16, 8}), {}).has_value());
  expect_near(
      product(odd, odd.t()),
      odd.to(at::kDouble).mm(odd.t().to(at::kDouble)),
      0.01);
}

/// Results must repeat while it lives.
class Deterministic {
 public:
  Deterministic() {
    at::globalContext().setDeterministicAlgorithms(true, true);
  }
  ~Deterministic() {
    at::globalContext().setDeterministicAlgorithms(false, false);
  }
  Deterministic(const Deterministic&) = delete;
  Deterministic& operator=(const Deterministic&) = delete;
};

TEST(GpuProduct, TriesAlgorithmsOnceAndNotWhereResultsMustRepeat) {
  at::manual_seed(7);
  // Large enough to be tried, and a sum that must not be added to meanwhile.
  const Tensor x = random({2048, 1024});
  const Tensor y = random({1024, 2048});
  const Tensor expected = x.to(at::kDouble).mm(y.to(at::kDouble));
  const Tensor sum = at::zeros({2048, 2048}, x.options().dtype(at::kFloat));
  ASSERT_TRUE(gpu_product_into(sum, x, y, Into::overwrite));
  expect_near(sum, expected, 0.01);
  ASSERT_TRUE(gpu_product_into(sum, x, y, Into::add));
  expect_near(sum, 2 * expected, 0.01);
  const Tensor tried = *gpu_product(x, y, {});
  expect_near(tried, expected, 0.01);
  EXPECT_TRUE(at::equal(tried, *gpu_product(x, y, {})));
  const Deterministic deterministic;
  expect_near(*gpu_product(x, y, {}), expected, 0.01);
}

TEST(GpuProduct, TakesMatricesThatLieAnywhereInEights) {
  at::manual_seed(8);
  const Tensor memory = random({1 << 22});
  const auto matrix = [&](std::int64_t begin) {
    return memory.narrow(0, begin, 1 << 20).view({1024, 1024});
  };
  const Tensor left = matrix(8);
  const Tensor right = matrix((1 << 20) + 24);
  const auto found = gpu_product(left, right, {});
  ASSERT_TRUE(found.has_value());
  expect_near(*found, left.to(at::kDouble).mm(right.to(at::kDouble)), 0.01);
}

TEST(GpuProduct, AddsAMatrixWithinTheProduct) {
  at::manual_seed(11);
  const Tensor left = random({1024, 512});
  const Tensor right = random({512, 768});
  for (const bool biased : {true, false}) {
    const Tensor bias = biased ? random({768}) : Tensor();
    const Tensor addend = random({1024, 768}).mul_(20);
    const Tensor before = addend.clone();
    Tensor wanted =
        addend.to(at::kDouble) + left.to(at::kDouble).mm(right.to(at::kDouble));
    if (biased) {
      wanted += bias.to(at::kDouble);
    }
    // The first time algorithms are tried, the second time one is known.
    for (int i = 0; i < 2; ++i) {
      const auto sum = gpu_product(left, right, bias, addend);
      ASSERT_TRUE(sum.has_value());
      expect_near(*sum, wanted, 0.01);
      EXPECT_TRUE(at::equal(addend, before));
    }
  }
  EXPECT_FALSE(gpu_product(left, right, {}, random({1024, 512})).has_value());
}

TEST(GpuProduct, LeavesWhatAutogradRecordsToLibtorch) {
  const Tensor x = random({64, 64}).requires_grad_();
  EXPECT_FALSE(gpu_product(x, x, {}).has_value());
}

TEST(GpuProduct, SwiGluMlpIsLibtorchs) {
  at::manual_seed(9);
  expect_same(
      {random({2, 65, 64}),
       random({128, 64}).mul_(0.3),
       random({128, 64}).mul_(0.3),
       random({64, 128}).mul_(0.3),
       random({2, 65, 64})},
      [](const auto& in) {
        return swiglu_mlp(in[0], in[4], {in[1], in[2], in[3]});
      },
      [](const auto& in) {
        return in[4] +
            at::linear(
                   at::silu(at::linear(in[0], in[1])) *
                       at::linear(in[0], in[2]),
                   in[3]);
      });
}

TEST(GpuProduct, LinearIsLibtorchs) {
  at::manual_seed(2);
  for (const bool biased : {true, false}) {
    expect_same(
        {random({2, 65, 64}),
         random({96, 64}),
         biased ? random({96}) : Tensor()},
        [](const auto& in) { return linear(in[0], in[1], in[2]); },
        [](const auto& in) {
          return at::linear(
              in[0],
              in[1],
              in[2].defined() ? std::optional(in[2]) : std::nullopt);
        });
  }
}

TEST(GpuProduct, AppliesGeluAndItsSlope) {
  at::manual_seed(3);
  const Tensor x = random({72, 64});
  EXPECT_TRUE(gpu_product_gelu(x, random({64, 96}), random({96})).has_value());
  for (const auto kind : {GeluKind::tanh, GeluKind::exact}) {
    for (const bool biased : {true, false}) {
      expect_same(
          {random({2, 65, 64}).mul_(0.3),
           random({256, 64}).mul_(0.3),
           biased ? random({256}) : Tensor(),
           random({64, 256}),
           biased ? random({64}) : Tensor(),
           random({2, 65, 64})},
          [&](const auto& in) {
            return gelu_mlp(in[0], in[5], {in[1], in[2]}, {in[3], in[4]}, kind);
          },
          [&](const auto& in) {
            const auto optional = [](const Tensor& bias) {
              return bias.defined() ? std::optional(bias) : std::nullopt;
            };
            const Tensor wide = at::gelu(
                at::linear(in[0], in[1], optional(in[2])),
                kind == GeluKind::exact ? "none" : "tanh");
            return in[5] + at::linear(wide, in[3], optional(in[4]));
          });
    }
  }
}

/// libtorch's attention of heads [batch, sequence, heads, size]; so is the
/// result.
Tensor libtorchs_attention(
    const std::vector<Tensor>& heads,
    const Scores& scores,
    const std::optional<Tensor>& mask = std::nullopt) {
  return at::scaled_dot_product_attention(
             heads[0].transpose(1, 2),
             heads[1].transpose(1, 2),
             heads[2].transpose(1, 2),
             mask,
             0,
             scores.causal,
             scores.scale)
      .transpose(1, 2);
}

TEST(GpuAttention, TakesCudnnAndIsLibtorchs) {
  at::manual_seed(4);
  for (const auto type : {at::kBFloat16, at::kHalf}) {
    for (const std::int64_t size : {64, 128}) {
      for (const bool causal : {true, false}) {
        const Scores scores{.causal = causal, .scale = 0.1};
        const Tensor joined = random({2, 256, 3, 3, size}, type);
        ASSERT_TRUE(attends_joined_on_gpu(joined, {scores}));
        expect_same(
            {joined},
            [&](const auto& in) { return attend_joined(in[0], scores); },
            [&](const auto& in) {
              return libtorchs_attention(in[0].unbind(3), scores).flatten(2, 3);
            });
      }
    }
  }
}

TEST(GpuAttention, GivesTheGradientsOfItsProjection) {
  at::manual_seed(10);
  const Scores scores{.causal = true, .scale = 0.125};
  for (const std::int64_t size : {64, 60, 119}) { // not all are multiples of 8
    expect_same(
        {random({2, 128, 128}),
         random({6 * size, 128}).mul_(0.1),
         random({6 * size}).mul_(0.1)},
        [&](const auto& in) {
          const auto found = project_and_attend_on_gpu(
              in[0],
              {in[1], in[2], /*groups=*/2, size},
              {scores});
          return found.value();
        },
        [&](const auto& in) {
          const Tensor joined =
              at::linear(in[0], in[1], in[2]).view({2, 128, 2, 3, size});
          return libtorchs_attention(joined.unbind(3), scores).flatten(2, 3);
        });
  }
}

TEST(GpuAttention, MakesHeadsLongerThatRotaryPositionsTurn) {
  at::manual_seed(12);
  constexpr std::int64_t tokens = 128;
  const Scores scores{.causal = true, .scale = 0.125};
  for (const std::int64_t size : {60, 34, 40}) {
    const Rotary rotary({.head_size = size});
    const auto [cosine, sine] =
        rotary.angles({}, tokens, at::kBFloat16, at::Device(at::kCUDA, 0));
    expect_same(
        {random({2, tokens, 128}),
         random({6 * size, 128}).mul_(0.1),
         random({6 * size}).mul_(0.1)},
        [&](const auto& in) {
          const auto found = project_and_attend_on_gpu(
              in[0],
              {in[1], in[2], /*groups=*/2, size},
              {scores, {cosine, sine}});
          return found.value();
        },
        [&](const auto& in) {
          const auto parts = at::linear(in[0], in[1], in[2])
                                 .view({2, tokens, 2, 3, size})
                                 .unbind(3);
          const auto turned = [&](const Tensor& x) {
            return rotate(x, cosine.to(at::kDouble), sine.to(at::kDouble));
          };
          return libtorchs_attention(
                     {turned(parts[0]), turned(parts[1]), parts[2]},
                     scores)
              .flatten(2, 3);
        });
  }
}

TEST(GpuAttention, HasGroupedQueriesAndRotaryPositions) {
  at::manual_seed(5);
  constexpr std::int64_t tokens = 128;
  constexpr std::int64_t size = 64;
  const Rotary rotary({.head_size = size});
  const auto [cosine, sine] =
      rotary.angles({}, tokens, at::kBFloat16, at::Device(at::kCUDA, 0));
  const Scores scores{.causal = true, .scale = 0.125};
  const Tensor joined = random({2, tokens, 2, 6, size});
  ASSERT_TRUE(attends_joined_on_gpu(joined, {scores, {cosine, sine}}));
  expect_same(
      {joined},
      [&](const auto& in) {
        return attend_joined_on_gpu(in[0], {scores, {cosine, sine}});
      },
      [&](const auto& in) {
        const auto turned = [&](const Tensor& x) {
          return rotate(x, cosine.to(at::kDouble), sine.to(at::kDouble));
        };
        const auto all_heads = [&](std::int64_t first) {
          return in[0]
              .narrow(3, first, 1)
              .expand({-1, -1, -1, 4, -1})
              .flatten(2, 3);
        };
        return libtorchs_attention(
            {turned(in[0].narrow(3, 0, 4).flatten(2, 3)),
             turned(all_heads(4)),
             all_heads(5)},
            scores);
      });
}

TEST(FusedOrApart, KeepsTheFasterWayOnDisk) {
  const testing::TemporaryFolder folder;
  ASSERT_EQ(::setenv("CAIRN_CACHE_DIR", folder.path().c_str(), 1), 0);
  const Tensor left = random({4096, 1024});
  const Tensor right = random({1024, 4096});
  int fused = 0;
  int apart = 0;
  const auto products = [&](int count, int& calls) {
    return [&left, &right, &calls, count] {
      ++calls;
      for (int i = 0; i < count; ++i) {
        at::mm(left, right);
      }
    };
  };
  const FusedOrApart slow_when_fused("slow when fused", left, right);
  const FusedOrApart slow_when_apart("slow when apart", left, right);
  EXPECT_FALSE(slow_when_fused.apart_is_faster());
  slow_when_fused.try_both(products(8, fused), products(1, apart));
  slow_when_apart.try_both(products(1, fused), products(8, apart));
  EXPECT_TRUE(slow_when_fused.apart_is_faster());
  EXPECT_FALSE(slow_when_apart.apart_is_faster());
  EXPECT_GT(fused, 0);
  EXPECT_GT(apart, 0);

  fused = apart = 0; // what is known is not tried again
  slow_when_fused.try_both(products(1, fused), products(8, apart));
  EXPECT_EQ(fused + apart, 0);
  std::string lines;
  for (const auto& file :
       std::filesystem::recursive_directory_iterator(folder.path())) {
    if (file.is_regular_file()) {
      std::ifstream in(file.path());
      lines.append(std::istreambuf_iterator<char>(in), {});
    }
  }
  EXPECT_NE(lines.find("1 slow when fused 4096x4096x1024"), lines.npos);
  EXPECT_NE(lines.find("0 slow when apart 4096x4096x1024"), lines.npos);

  const Tensor few = random({8, 1024});
  const FusedOrApart small("small", few, right);
  small.try_both(products(1, fused), products(1, apart));
  EXPECT_EQ(fused + apart, 0);
}

TEST(GpuAttention, HasMasks) {
  at::manual_seed(6);
  const Scores scores{.causal = false, .scale = 0.125};
  const Tensor joined = random({2, 64, 3, 3, 64});
  const Tensor visible =
      at::ones({2, 1, 64, 64}, joined.options().dtype(at::kBool));
  visible.select(0, 1).narrow(2, 50, 14).fill_(false);
  const Tensor added = at::zeros({2, 1, 64, 64}, joined.options())
                           .masked_fill_(visible.logical_not(), -10000);
  for (const Tensor& mask : {visible, added}) {
    ASSERT_TRUE(attends_joined_on_gpu(joined, {scores, {}, mask}));
    expect_same(
        {joined},
        [&](const auto& in) {
          return attend_joined_on_gpu(in[0], {scores, {}, mask});
        },
        [&](const auto& in) {
          return libtorchs_attention(in[0].unbind(3), scores, visible);
        });
  }
}

TEST(GpuAttention, AddsToScoresByPlace) {
  at::manual_seed(7);
  constexpr std::int64_t tokens = 200;
  const Tensor by_key = at::zeros({2, tokens}, at::kFloat);
  by_key[1].narrow(0, 150, 50).fill_(-std::numeric_limits<double>::infinity());
  const Tensor of_keys = by_key.cuda();
  for (const bool causal : {false, true}) {
    const Scores scores{.causal = causal, .scale = 1};
    const Tensor joined = random({2, tokens, 3, 3, 64}).mul_(0.3);
    const auto how = [&](const Tensor& by_distance) {
      return SelfScores{
          .scores = scores,
          .placed = {by_distance.to(at::kFloat), of_keys}};
    };
    const Tensor by_distance = random({3, 2 * tokens - 1});
    ASSERT_TRUE(attends_joined_on_gpu(joined, how(by_distance)));
    expect_same(
        {joined, by_distance},
        [&](const auto& in) { return attend_joined_on_gpu(in[0], how(in[1])); },
        [&](const auto& in) {
          const Tensor mask = placed_mask(
              {in[1], of_keys},
              tokens,
              tokens,
              causal,
              in[1].scalar_type());
          return libtorchs_attention(
              in[0].unbind(3),
              {.causal = false, .scale = 1},
              mask.expand({2, 3, tokens, tokens}));
        });
  }
}

} // namespace
} // namespace cairn::nn::gpu_product_test
