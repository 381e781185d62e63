#include "nn/internal/relative_bias.h"
#include "support/run_ranks.h"

#include <ATen/ATen.h>
#include <cairn/nn/attention.h>
#include <cairn/nn/norm.h>
#include <cairn/nn/placed_scores.h>
#include <cairn/nn/tensor_parallel.h>
#include <cairn/nn/vocabulary.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/utils.h>

namespace cairn::nn::layers_test {
namespace {

using at::Tensor;

/// Hidden states, weights and labels, the same on every rank.
struct Scores {
  std::int64_t vocabulary;
  Tensor hidden =
      at::sin(at::arange(2 * 300 * 8, at::kFloat)).view({2, 300, 8});
  Tensor weight;
  Tensor bias;
  Tensor labels;
  Tensor weights = at::cos(at::arange(600, at::kFloat)).abs_().view({2, 300});

  explicit Scores(std::int64_t words = 37)
      : vocabulary(words),
        weight(at::cos(at::arange(words * 8, at::kFloat) * 2).view({words, 8})),
        bias(at::sin(at::arange(words, at::kFloat) * 3)),
        labels(at::arange(600, at::kLong)
                   .mul_(1007)
                   .remainder_(words)
                   .view({2, 300})) {
    labels[0][5] = -100;
  }

  /// The rank's part of a vocabulary padded to `padded`.
  VocabularyHead head(std::int64_t padded, const ProcessGroup& group) const {
    const SlicedShape shape =
        VocabularyOptions{vocabulary, padded}.shape(group, 8);
    VocabularyHead head;
    head.part = VocabularyPart::of(shape);
    head.vocabulary = vocabulary;
    head.group = group;
    head.weight = at::zeros(shape.local);
    head.bias = at::full({shape.local[0]}, 1e4); // padding must not be seen
    const std::int64_t used = head.part.used;
    if (used > 0) {
      head.weight.narrow(0, 0, used)
          .copy_(weight.narrow(0, head.part.begin, used));
      head.bias.narrow(0, 0, used).copy_(bias.narrow(0, head.part.begin, used));
    }
    head.weight.requires_grad_();
    head.bias.requires_grad_();
    return head;
  }
};

void compare_losses(
    const Scores& scores,
    std::int64_t padded,
    const ProcessGroup& group) {
  const Tensor hidden = scores.hidden.clone().requires_grad_();
  const Tensor weight = scores.weight.clone().requires_grad_();
  const Tensor bias = scores.bias.clone().requires_grad_();
  const Tensor each = at::cross_entropy_loss(
      at::linear(hidden, weight, bias).flatten(0, 1),
      scores.labels.flatten(),
      {},
      at::Reduction::None);
  const Tensor expected = (each * scores.weights.flatten()).sum();
  (expected * 3).backward();

  const Tensor own = scores.hidden.clone().requires_grad_();
  const VocabularyHead head = scores.head(padded, group);
  const Tensor loss =
      linear_cross_entropy(own, head, scores.labels, scores.weights);
  EXPECT_NEAR(
      loss.item<double>(),
      expected.item<double>(),
      1e-5 * expected.item<double>());
  (loss * 3).backward();
  EXPECT_TRUE(at::allclose(own.grad(), hidden.grad(), 1e-4, 1e-5));
  const std::int64_t begin = std::min(head.part.begin, scores.vocabulary);
  const std::int64_t used = head.part.used;
  EXPECT_TRUE(at::allclose(
      head.weight.grad().narrow(0, 0, used),
      weight.grad().narrow(0, begin, used),
      1e-4,
      1e-4));
  EXPECT_TRUE(at::allclose(
      head.bias.grad().narrow(0, 0, used),
      bias.grad().narrow(0, begin, used),
      1e-4,
      1e-4));
  EXPECT_EQ(
      head.weight.grad().abs().sum().item<double>(),
      head.weight.grad().narrow(0, 0, used).abs().sum().item<double>());
  EXPECT_TRUE(at::allclose(
      token_cross_entropy(own, head, scores.labels).flatten(),
      each,
      1e-4,
      1e-5));
  EXPECT_TRUE(at::equal(
      likeliest_words(own, head),
      at::linear(scores.hidden, scores.weight, scores.bias).argmax(-1)));
  EXPECT_TRUE(at::allclose(
      logits(own, head),
      at::linear(scores.hidden, scores.weight, scores.bias),
      1e-5,
      1e-5));
}

TEST(Layers, CrossEntropyIsLibtorchs) {
  testing::run_ranks(1, [](const auto& group) {
    compare_losses(Scores(37), 37, group);
    compare_losses(Scores(37), 64, group);
  });
}

TEST(Layers, CrossEntropyOfAVocabularyInParts) {
  testing::run_ranks(2, [](const auto& group) {
    compare_losses(Scores(37), 37, group);
    compare_losses(Scores(37), 128, group); // the second rank has padding only
  });
}

TEST(Layers, CrossEntropyOfMoreScoresThanFitAChunk) {
  testing::run_ranks(1, [](const auto& group) {
    compare_losses(Scores(66000), 66000, group); // 256 tokens at a time
  });
}

TEST(Layers, CrossEntropyStaysANumberForLargeScores) {
  testing::run_ranks(2, [](const auto& group) {
    const Scores scores;
    const Tensor large = scores.hidden * 1e4;
    EXPECT_TRUE(
        linear_cross_entropy(large, scores.head(37, group), scores.labels)
            .isfinite()
            .template item<bool>());
  });
}

TEST(Layers, ANormThatPassesItsInputOnGivesTheSameGradients) {
  testing::run_ranks(1, [](const ProcessGroup& group) {
    for (const auto kind :
         {model::NormKind::layer_norm, model::NormKind::rms_norm}) {
      LayerContext context;
      context.group = group;
      const Norm norm(context, 8, {.kind = kind});
      const Tensor x = at::sin(at::arange(40, at::kFloat)).view({5, 8});
      const auto gradients = [&](bool passes) {
        Tensor input = x.clone().requires_grad_();
        const auto [same, normal] =
            passes ? norm.pass(input) : std::pair(input, norm.forward(input));
        EXPECT_TRUE(at::equal(same, x));
        (same.cos() * normal.sin()).sum().backward();
        std::vector<Tensor> all{normal.detach(), input.grad()};
        for (const Tensor& each : norm.parameters()) {
          all.push_back(each.grad().clone());
          each.mutable_grad().reset();
        }
        return all;
      };
      const auto found = gradients(true);
      const auto expected = gradients(false);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        EXPECT_TRUE(at::allclose(found[i], expected[i], 1e-5, 1e-6)) << i;
      }
      // One of the two results may be left unused.
      Tensor input = x.clone().requires_grad_();
      norm.pass(input).first.sum().backward();
      EXPECT_TRUE(at::equal(input.grad(), at::ones_like(x)));
    }
  });
}

TEST(Layers, RotationKeepsLengthsAndDistances) {
  testing::run_ranks(1, [](const auto&) {
    const Rotary rotary({.head_size = 8});
    const auto [cosine, sine] = rotary.angles({}, 6, at::kFloat, at::kCPU);
    const Tensor x = at::sin(at::arange(8, at::kFloat)).expand({1, 6, 2, 8});
    const Tensor turned = rotate(x, cosine, sine);
    EXPECT_TRUE(at::equal(turned[0][0], x[0][0]));
    EXPECT_TRUE(at::allclose(turned.norm(2, -1), x.norm(2, -1)));
    const auto product = [&](int a, int b) {
      return turned[0][a][0].dot(turned[0][b][0]).template item<double>();
    };
    EXPECT_NEAR(product(1, 3), product(3, 5), 1e-5);
    EXPECT_GT(std::abs(product(1, 3) - product(1, 4)), 1e-3);
    // Positions that are given are rows of the same table.
    const Tensor places =
        at::tensor({5, 0, 2, 2, 1, 3}, at::kLong).unsqueeze(0);
    const auto [some_cosine, some_sine] =
        rotary.angles(places, 6, at::kFloat, at::kCPU);
    EXPECT_TRUE(
        at::equal(rotate(x, some_cosine, some_sine)[0][0], turned[0][5]));
  });
}

// Frequencies that transformers 4.57 computes (_compute_llama3_parameters) for
// head_dim 8, theta 100, factor 8, low 1, high 4, original 64 positions.
TEST(Layers, RotaryScalingIsLlama3s) {
  testing::run_ranks(1, [](const auto&) {
    const Rotary rotary(
        {.head_size = 8,
         .theta = 100,
         .scaling = model::RopeScaling{
             .kind = "llama3",
             .factor = 8,
             .low_frequency_factor = 1,
             .high_frequency_factor = 4,
             .original_positions = 64}});
    const auto angles = rotary.angles({}, 2, at::kFloat, at::kCPU);
    const Tensor first = at::acos(angles.first[0][1][0]);
    const double theirs[] = {1, 0.244384587, 0.0130422562, 0.00395284733};
    EXPECT_NEAR(first[0].template item<double>(), theirs[0], 1e-6);
    const Tensor sines = angles.second[0][1][0];
    for (int i = 0; i < 4; ++i) {
      EXPECT_NEAR(sines[i].template item<double>(), std::sin(theirs[i]), 1e-7);
    }
  });
}

// What transformers 5.23 computes (_compute_yarn_parameters) for head_dim 16,
// theta 100, factor 4, beta_fast 8, original 64 positions.
TEST(Layers, RotaryScalingIsYarns) {
  const double whole[] = {
      1,
      0.477990121,
      0.221359432,
      0.0978053659,
      0.0399999991,
      0.0140585322,
      0.00790569466,
      0.00444569858};
  const double not_whole[] = {
      1,
      0.494582266,
      0.212468684,
      0.0825591981,
      0.0256643984,
      0.0140585322,
      0.00790569466,
      0.00444569858};
  constexpr double factor = 1.138629436111989;
  testing::run_ranks(1, [&](const auto&) {
    for (const bool whole_pairs : {true, false}) {
      const Rotary rotary(
          {.head_size = 16,
           .theta = 100,
           .scaling = model::RopeScaling{
               .kind = "yarn",
               .factor = 4,
               .original_positions = 64,
               .yarn = model::YarnScaling{8, 1, factor, whole_pairs}}});
      const auto angles = rotary.angles({}, 2, at::kFloat, at::kCPU);
      const Tensor sines = angles.second[0][1][0] / factor;
      EXPECT_NEAR(
          angles.first[0][0][0][3].template item<double>(),
          factor,
          1e-6);
      for (int i = 0; i < 8; ++i) {
        EXPECT_NEAR(
            sines[i].template item<double>(),
            std::sin((whole_pairs ? whole : not_whole)[i]),
            2e-7);
      }
    }
  });
}

TEST(Layers, LongRopeChangesWithTheLengthOfTheText) {
  testing::run_ranks(1, [&](const auto&) {
    const Rotary rotary(
        {.head_size = 8,
         .theta = 100,
         .scaling = model::RopeScaling{
             .kind = "longrope",
             .factor = 4,
             .original_positions = 6,
             .longrope =
                 model::LongScaling{{1, 1.25, 1.5, 2}, {1, 2, 4, 8}, 1.5}}});
    const auto expect = [&](std::int64_t length,
                            const std::vector<double>& factors) {
      const auto [cosine, sine] =
          rotary.angles({}, length, at::kFloat, at::kCPU);
      ASSERT_EQ(cosine.size(1), length);
      for (std::size_t i = 0; i < factors.size(); ++i) {
        const double angle =
            3 * std::pow(100, -static_cast<double>(i) / 4) / factors[i];
        const auto pair = static_cast<std::int64_t>(i);
        EXPECT_NEAR(
            cosine[0][3][0][pair].template item<double>(),
            1.5 * std::cos(angle),
            1e-6);
        EXPECT_NEAR(
            sine[0][3][0][pair].template item<double>(),
            1.5 * std::sin(angle),
            1e-6);
      }
    };
    expect(6, {1, 1.25, 1.5, 2});
    expect(7, {1, 2, 4, 8});
    expect(4, {1, 1.25, 1.5, 2});
  });
}

TEST(Layers, RelativeBucketsAreT5s) {
  testing::run_ranks(1, [](const auto&) {
    const auto row = [](bool bidirectional, std::int64_t query) {
      const Tensor buckets = relative_buckets(
          40,
          40,
          {.heads = 1,
           .buckets = 8,
           .distance = 20,
           .bidirectional = bidirectional},
          at::kCPU)[query];
      return std::vector<std::int64_t>(
          buckets.const_data_ptr<std::int64_t>(),
          buckets.const_data_ptr<std::int64_t>() + 40);
    };
    EXPECT_EQ(
        row(true, 20),
        (std::vector<std::int64_t>{3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3,
                                   2, 2, 2, 2, 2, 1, 0, 5, 6, 6, 6, 6, 6, 7,
                                   7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7}));
    EXPECT_EQ(
        row(false, 39),
        (std::vector<std::int64_t>{7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
                                   7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 6, 6,
                                   6, 6, 6, 5, 5, 5, 4, 4, 3, 2, 1, 0}));
  });
}

TEST(Layers, RelativeBiasByDistanceIsThatOfEveryPair) {
  at::manual_seed(3);
  const Tensor weight = at::randn({8, 3}).requires_grad_();
  const Tensor by_key = at::randn({2, 13});
  for (const bool bidirectional : {true, false}) {
    const RelativeBiasOptions options{
        .heads = 3,
        .buckets = 8,
        .distance = 20,
        .bidirectional = bidirectional};
    const Tensor found = placed_mask(
        {relative_bias_by_distance(weight, 9, 13, options), by_key},
        9,
        13,
        /*causal=*/!bidirectional,
        at::kFloat);
    Tensor expected =
        relative_bias(weight, 9, 13, options) + by_key.view({2, 1, 1, 13});
    if (!bidirectional) {
      expected = expected.masked_fill(
          at::ones({9, 13}, at::kBool).triu(1),
          -std::numeric_limits<double>::infinity());
    }
    EXPECT_TRUE(at::equal(found, expected));
    const auto gradient = [&](const Tensor& mask) {
      return torch::autograd::grad({mask.exp().sum()}, {weight})[0];
    };
    EXPECT_TRUE(at::allclose(gradient(found), gradient(expected)));
  }
}

TEST(Layers, GroupedQueriesShareKeys) {
  testing::run_ranks(1, [](const auto&) {
    torch::manual_seed(1);
    const Tensor query = at::rand({2, 5, 4, 8});
    const Tensor key = at::rand({2, 5, 2, 8});
    const Tensor value = at::rand({2, 5, 2, 8});
    const auto twice = [](const Tensor& x) {
      return x.repeat_interleave(2, 2);
    };
    EXPECT_TRUE(at::allclose(
        attend(query, key, value, {.causal = true}),
        attend(query, twice(key), twice(value), {.causal = true})));
  });
}

} // namespace
} // namespace cairn::nn::layers_test
