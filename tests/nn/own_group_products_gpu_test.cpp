#include "nn/moe/own_group_products.h"

#include "nn/moe/group_rows.h"
#include "nn/moe/grouped_gelu_mlp.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/utils.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

// Products of groups by our own kernel, which has Hopper's instructions,
// against the CPU's in double. Groups are of any size, also empty, and the rows
// of nobody are NaN.

namespace cairn::nn::own_group_products_gpu_test {
namespace {

using at::Tensor;

struct Shape {
  std::vector<std::int64_t> sizes; ///< rows of the groups
  std::int64_t out;
  std::int64_t in;
};

std::vector<Shape> shapes() {
  return {
      {{128, 128}, 128, 64},
      {{256, 0, 300, 1, 77, 64, 129}, 256, 192},
      {{5, 0, 0, 700, 63, 65, 7}, 264, 520},
      {{0, 33, 0}, 8, 16},
      {{900, 0, 1100, 3, 520}, 2048, 264}, // many tiles for each block
      {std::vector<std::int64_t>(130, 9), 72, 40}};
}

Tensor on_cpu(const Tensor& x) {
  return x.detach().to(at::kCPU, at::kDouble);
}

/// Some numbers that bf16 holds, in double.
Tensor some(at::IntArrayRef shape, double size = 1) {
  return (at::randn(shape) * size).to(at::kBFloat16).to(at::kDouble);
}

Tensor on_gpu(const Tensor& x) {
  return x.to(at::kCUDA, at::kBFloat16);
}

void expect_near(
    const Tensor& found,
    const Tensor& wanted,
    double relative,
    const std::string& what) {
  const double off = (on_cpu(found) - wanted).norm().item<double>();
  EXPECT_LE(off, relative * wanted.norm().item<double>()) << what; // or NaN
}

constexpr double of_16_bits = 4e-3;
constexpr double of_32_bits = 1e-5;
constexpr std::int64_t of_nobody = 13; ///< rows

/// One shape with random matrices, on the CPU in double and on the GPU.
class Case {
 public:
  explicit Case(const Shape& shape) : shape_(shape) {
    std::int64_t end = 0;
    for (const std::int64_t size : shape.sizes) {
      ends_.push_back(static_cast<int>(end += size));
    }
    used = end;
    groups.ends = at::tensor(ends_, at::kInt).to(at::kCUDA);
    const auto count = static_cast<std::int64_t>(shape.sizes.size());
    x = rows(shape.in);
    gradient = rows(shape.out);
    sums = rows(shape.in);
    weight = some({count, shape.out, shape.in}, 0.1);
    bias = some({count, shape.out});
  }

  template <typename Body>
  void for_groups(const Body& body) const {
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < ends_.size(); ++i) {
      body(static_cast<std::int64_t>(i), begin, ends_[i] - begin);
      begin = ends_[i];
    }
  }

  /// x times transposed weights, plus biases.
  Tensor forward(bool biased) const {
    Tensor all = at::zeros({used, shape_.out}, at::kDouble);
    for_groups([&](std::int64_t i, std::int64_t begin, std::int64_t n) {
      Tensor part = x.narrow(0, begin, n).mm(weight[i].t());
      all.narrow(0, begin, n).copy_(biased ? part + bias[i] : part);
    });
    return all;
  }

  Tensor of_input() const {
    Tensor all = at::zeros({used, shape_.in}, at::kDouble);
    for_groups([&](std::int64_t i, std::int64_t begin, std::int64_t n) {
      all.narrow(0, begin, n).copy_(gradient.narrow(0, begin, n).mm(weight[i]));
    });
    return all;
  }

  Tensor of_weights() const {
    Tensor all = at::zeros(weight.sizes(), at::kDouble);
    for_groups([&](std::int64_t i, std::int64_t begin, std::int64_t n) {
      all[i].copy_(gradient.narrow(0, begin, n).t().mm(x.narrow(0, begin, n)));
    });
    return all;
  }

  Tensor sums_of(const Tensor& values) const {
    Tensor all = at::zeros({weight.size(0), values.size(1)}, at::kDouble);
    for_groups([&](std::int64_t i, std::int64_t begin, std::int64_t n) {
      all[i].copy_(values.narrow(0, begin, n).sum(0));
    });
    return all;
  }

  Tensor used_of(const Tensor& all) const { return all.narrow(0, 0, used); }

  RowGroups groups;
  std::int64_t used = 0;
  Tensor x;        ///< [rows, in]
  Tensor gradient; ///< [rows, out]
  Tensor sums;     ///< [rows, in]
  Tensor weight;
  Tensor bias;

 private:
  Tensor rows(std::int64_t columns) const {
    Tensor all = some({used + of_nobody, columns});
    all.narrow(0, used, of_nobody)
        .fill_(std::numeric_limits<double>::quiet_NaN());
    return all;
  }

  Shape shape_;
  std::vector<int> ends_;
};

class OwnGroupProductsGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    at::manual_seed(44);
    const Tensor any = at::zeros({8, 8, 8}, at::kBFloat16).to(at::kCUDA);
    if (!has_own_products(any[0], any)) {
      GTEST_SKIP() << "not a Hopper GPU";
    }
  }

  template <typename Body>
  static void for_shapes(const Body& body) {
    for (const Shape& shape : shapes()) {
      SCOPED_TRACE(
          ::testing::Message() << shape.sizes.size() << " groups, " << shape.in
                               << " to " << shape.out);
      body(Case(shape));
    }
  }
};

TEST_F(OwnGroupProductsGpu, AreTheCpus) {
  for_shapes([](const Case& c) {
    for (const bool biased : {false, true}) {
      expect_near(
          c.used_of(own_products(
              on_gpu(c.x),
              on_gpu(c.weight),
              biased ? on_gpu(c.bias) : Tensor(),
              c.groups)),
          c.forward(biased),
          of_16_bits,
          biased ? "with biases" : "plain");
    }
    expect_near(
        c.used_of(own_input_gradients(
            on_gpu(c.gradient),
            on_gpu(c.weight),
            c.groups)),
        c.of_input(),
        of_16_bits,
        "gradient of the input");
  });
}

TEST_F(OwnGroupProductsGpu, TakeGelu) {
  for_shapes([](const Case& c) {
    for (const GeluKind kind : {GeluKind::exact, GeluKind::tanh}) {
      const char* const name = kind == GeluKind::exact ? "none" : "tanh";
      for (const bool biased : {false, true}) {
        const GroupGelu found = own_products_gelu(
            on_gpu(c.x),
            on_gpu(c.weight),
            biased ? on_gpu(c.bias) : Tensor(),
            kind,
            c.groups);
        const Tensor sums = c.used_of(found.sums);
        expect_near(sums, c.forward(biased), of_16_bits, "sums");
        expect_near(
            c.used_of(found.result),
            at::gelu(on_cpu(sums), name),
            of_16_bits,
            "GELU");
      }
    }
  });
}

TEST_F(OwnGroupProductsGpu, TakeTheSlopeOfGelu) {
  for_shapes([](const Case& c) {
    for (const GeluKind kind : {GeluKind::exact, GeluKind::tanh}) {
      const GroupGeluGradients found = own_gelu_gradients(
          on_gpu(c.gradient),
          on_gpu(c.weight),
          on_gpu(c.sums),
          kind,
          c.groups);
      const Tensor x = c.used_of(found.x);
      expect_near(
          x,
          at::gelu_backward(
              c.of_input(),
              c.used_of(c.sums),
              kind == GeluKind::exact ? "none" : "tanh"),
          1.5 * of_16_bits, // the product is rounded before
          "gradient");
      EXPECT_EQ(found.bias.scalar_type(), at::kFloat);
      expect_near(found.bias, c.sums_of(on_cpu(x)), of_32_bits, "sums");
    }
  });
}

TEST_F(OwnGroupProductsGpu, GiveGradientsOfWeights) {
  for_shapes([](const Case& c) {
    const Tensor wanted = c.of_weights();
    for (const auto type : {at::kFloat, at::kBFloat16}) {
      const double near = type == at::kFloat ? of_32_bits : of_16_bits;
      const Tensor into = at::full(
          wanted.sizes(),
          std::numeric_limits<double>::quiet_NaN(),
          at::TensorOptions(at::kCUDA).dtype(type));
      ASSERT_TRUE(takes_own_weight_gradients(into));
      const auto write = [&](bool add) {
        own_weight_gradients_into(
            into,
            on_gpu(c.gradient),
            on_gpu(c.x),
            c.groups,
            add);
      };
      write(/*add=*/false);
      expect_near(into, wanted, near, "written");
      write(/*add=*/true);
      expect_near(into, 2 * wanted, 2 * near, "added");
    }
  });
}

TEST_F(OwnGroupProductsGpu, LeaveTheRowsOfNobody) {
  const Case c({{100, 0, 30}, 64, 64});
  const Tensor x = on_gpu(c.x);
  const Tensor weight = on_gpu(c.weight);
  // Freed memory comes back with what was in it.
  const auto poison = [&] { return at::full_like(x, 7).mutable_data_ptr(); };
  const void* const place = poison();
  const Tensor result = own_products(x, weight, {}, c.groups);
  ASSERT_EQ(result.const_data_ptr(), place);
  EXPECT_TRUE(result.narrow(0, c.used, of_nobody).eq(7).all().item<bool>());
}

TEST_F(OwnGroupProductsGpu, TakeMatricesWithGapsAndOddPlaces) {
  const Case c({{40, 9}, 64, 32});
  const Tensor wanted = c.forward(/*biased=*/false);
  const Tensor wide = at::zeros({c.x.size(0), 40}, at::kDouble);
  wide.narrow(1, 3, 32).copy_(c.x);
  expect_near(
      c.used_of(own_products(
          on_gpu(wide).narrow(1, 3, 32),
          on_gpu(c.weight.transpose(1, 2).contiguous()).transpose(1, 2),
          {},
          c.groups)),
      wanted,
      of_16_bits,
      "product");
}

TEST_F(OwnGroupProductsGpu, RefuseWhatDoesNotFit) {
  const Tensor x = at::zeros({8, 12}, at::kBFloat16).to(at::kCUDA);
  const Tensor odd = at::zeros({2, 8, 12}, at::kBFloat16).to(at::kCUDA);
  EXPECT_FALSE(has_own_products(x, odd));
  const Tensor even = at::zeros({2, 8, 16}, at::kBFloat16).to(at::kCUDA);
  EXPECT_TRUE(has_own_products(x, even));
  EXPECT_FALSE(has_own_products(x.to(at::kHalf), even.to(at::kHalf)));
  EXPECT_FALSE(has_own_products(x.cpu(), even.cpu()));
}

/// The whole node, with GELU kept or computed again, and the same bits again.
TEST_F(OwnGroupProductsGpu, AreTheMlpOfGroups) {
  const Case c({{256, 0, 301, 77}, 128, 64});
  const Tensor down = some({4, 64, 128}, 0.1);
  const Tensor down_bias = some({4, 64});
  const Tensor outer = c.sums; // [rows, 64]
  const auto results = [&](Activated activated) {
    const auto leaf = [](const Tensor& value) {
      return on_gpu(value).requires_grad_();
    };
    const std::vector<Tensor> leaves{
        leaf(c.x),
        leaf(c.weight),
        leaf(c.bias),
        leaf(down),
        leaf(down_bias)};
    const Tensor result = grouped_gelu_mlp(
        leaves[0],
        {leaves[1], leaves[2]},
        {leaves[3], leaves[4]},
        GeluKind::exact,
        c.groups,
        activated);
    result.backward(on_gpu(outer));
    std::vector<Tensor> made{
        c.used_of(result.detach()),
        c.used_of(leaves[0].grad())};
    for (std::size_t i = 1; i < leaves.size(); ++i) {
      made.push_back(leaves[i].grad());
    }
    return made;
  };
  std::vector<Tensor> leaves{
      c.used_of(c.x).clone().requires_grad_(),
      c.weight.clone().requires_grad_(),
      c.bias.clone().requires_grad_(),
      down.clone().requires_grad_(),
      down_bias.clone().requires_grad_()};
  std::vector<Tensor> parts;
  c.for_groups([&](std::int64_t i, std::int64_t begin, std::int64_t n) {
    const Tensor wide = at::gelu(
        leaves[0].narrow(0, begin, n).mm(leaves[1][i].t()) + leaves[2][i]);
    parts.push_back(wide.mm(leaves[3][i].t()) + leaves[4][i]);
  });
  const Tensor wanted = at::cat(parts);
  wanted.backward(c.used_of(outer));
  const std::vector<Tensor> kept = results(Activated::kept);
  const std::vector<Tensor> again = results(Activated::computed_again);
  expect_near(kept[0], wanted.detach(), 1e-2, "result");
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    expect_near(
        kept[i + 1],
        leaves[i].grad(),
        1e-2,
        "gradient " + std::to_string(i));
  }
  for (std::size_t i = 0; i < kept.size(); ++i) {
    expect_near(again[i], on_cpu(kept[i]), 1e-3, "computed again");
  }
  const std::vector<Tensor> repeated = results(Activated::kept);
  for (std::size_t i = 0; i < kept.size(); ++i) {
    EXPECT_TRUE(at::equal(repeated[i], kept[i])) << i;
  }
}

} // namespace
} // namespace cairn::nn::own_group_products_gpu_test
