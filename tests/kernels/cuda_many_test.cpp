// Kernels that work on many stretches with one launch, against the CPU's
// kernels and against sums in double.
#include "kernels/cuda_test.h"
#include "kernels/formulas.h"
#include "kernels/internal/cpu/cpu.h"
#include "kernels/internal/cuda/sum_of_squares.h"
#include "kernels/internal/cuda/update_many.h"

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <vector>

namespace cairn::kernels::cuda_many_test {
namespace {

using cuda_test::device;
using cuda_test::started;
using cuda_test::stream;
using cuda_test::types;

/// Sizes around those of vectors and blocks, and one of several blocks.
constexpr std::int64_t sizes[] = {1, 3, 4, 7, 255, 1023, 4096, 4097, 20001};

template <class Row>
at::Tensor on_device(const std::vector<Row>& rows) {
  const auto bytes = static_cast<std::int64_t>(rows.size() * sizeof(Row));
  at::Tensor table = at::empty({bytes}, at::kByte);
  std::memcpy(table.data_ptr(), rows.data(), static_cast<std::size_t>(bytes));
  return table.to(device);
}

template <class Formula>
Formula constants(float first) {
  std::array<float, sizeof(Formula) / sizeof(float)> values{};
  for (float& value : values) {
    value = first;
    first *= 0.61F;
  }
  return std::bit_cast<Formula>(values);
}

/// The memory of a stretch, `shift` elements into its tensors.
struct Memory {
  Memory(std::int64_t count, std::int64_t shift, int kind)
      : count(count), shift(shift), kind(kind) {
    const auto numbers = [&](at::ScalarType type) {
      return at::randn({count + shift}).to(type);
    };
    gradients = numbers(types[kind % 3].dtype);
    copy = numbers(at::kBFloat16);
    weights = narrow_weights()
        ? at::randint(-30000, 30000, {count + shift}, at::kShort)
        : numbers(at::kFloat);
    for (int s = 0; s < 2; ++s) {
      states.push_back(
          numbers(narrow_state(s) ? at::kBFloat16 : at::kFloat).abs());
    }
  }

  bool narrow_weights() const { return kind % 5 == 1; }
  bool narrow_state(int s) const { return kind % 5 == 1 + s; }

  std::vector<at::Tensor> written() const {
    return {copy, weights, states[0], states[1]};
  }
  Memory moved(at::Device where) const {
    Memory other = *this;
    for (at::Tensor* each :
         {&other.gradients,
          &other.copy,
          &other.weights,
          &other.states[0],
          &other.states[1]}) {
      *each = each->to(where, false, /*copy=*/true);
    }
    return other;
  }
  Stretch stretch() const {
    const auto at = [&](const at::Tensor& x) {
      return static_cast<char*>(x.data_ptr()) +
          shift * static_cast<std::int64_t>(x.element_size());
    };
    const auto words = [&](const at::Tensor& x) {
      return reinterpret_cast<std::uint16_t*>(at(x));
    };
    const auto floats = [&](const at::Tensor& x) {
      return reinterpret_cast<float*>(at(x));
    };
    Stretch result{
        .gradients = at(gradients),
        .gradient_type = types[kind % 3].element,
        .copy = kind % 4 == 3 && !narrow_weights() ? nullptr : at(copy),
        .count = count};
    if (narrow_weights()) {
      result.narrow.remainders = words(weights);
    } else {
      result.weights = floats(weights);
    }
    for (int s = 0; s < 2; ++s) {
      if (narrow_state(s)) {
        result.narrow.states[s] = words(states[s]);
      } else {
        result.states[s] = floats(states[s]);
      }
    }
    return result;
  }

  std::int64_t count;
  std::int64_t shift;
  int kind;
  at::Tensor gradients;
  at::Tensor copy;
  at::Tensor weights;
  std::vector<at::Tensor> states;
};

template <class Formula>
class UpdateMany : public ::testing::Test {};

template <class... Formula>
using TestTypes = ::testing::Types<Formula...>;

TYPED_TEST_SUITE(UpdateMany, Formulas<TestTypes>);

/// Repeats a launch after the numbers that it reads have changed.
TYPED_TEST(UpdateMany, GivesTheBitsOfTheCpuForEveryStretch) {
  at::manual_seed(7);
  std::vector<Memory> on_cpu;
  std::vector<Memory> on_gpu;
  std::vector<cuda::ManyStretchesRow> rows;
  for (int i = 0; i < 60; ++i) {
    on_cpu.emplace_back(sizes[i % std::size(sizes)], i % 7 == 2 ? 1 : 0, i);
    on_gpu.push_back(on_cpu.back().moved(device));
    rows.push_back({.stretch = on_gpu.back().stretch(), .formula = i % 2});
  }
  const std::int64_t blocks =
      cuda::number_blocks(rows.data(), std::ssize(rows));
  const at::Tensor table = on_device(rows);
  for (const std::uint32_t update : {1U, 2U}) {
    const float factor = 0.5F / static_cast<float>(update);
    const std::vector formulas{
        constants<TypeParam>(0.9F / static_cast<float>(update)),
        constants<TypeParam>(0.7F)};
    const at::Tensor formulas_there = on_device(formulas);
    const at::Tensor key = on_device(std::vector{update});
    const at::Tensor factor_there = on_device(std::vector{factor});
    started(cuda::update_many<TypeParam>(
        {.rows = static_cast<const cuda::ManyStretchesRow*>(table.data_ptr()),
         .count = std::ssize(rows),
         .blocks = blocks,
         .formulas = formulas_there.data_ptr(),
         .key = static_cast<const std::uint32_t*>(key.data_ptr()),
         .gradient_factor = static_cast<const float*>(factor_there.data_ptr()),
         .any_narrow = true},
        stream()));
    for (std::size_t i = 0; i < on_cpu.size(); ++i) {
      Memory& mine = on_cpu[i];
      // The CPU's kernels take no factor from memory.
      const at::Tensor given = mine.gradients;
      mine.gradients = given.to(at::kFloat) * factor;
      Stretch stretch = mine.stretch();
      stretch.gradient_type = Element::fp32;
      stretch.narrow.key = update;
      cpu::update(stretch, formulas[i % 2], nullptr);
      mine.gradients = given;
      const auto wanted = mine.written();
      const auto found = on_gpu[i].written();
      for (std::size_t k = 0; k < wanted.size(); ++k) {
        const at::Tensor there = found[k].cpu();
        EXPECT_EQ(
            std::memcmp(
                there.data_ptr(),
                wanted[k].data_ptr(),
                wanted[k].nbytes()),
            0)
            << "stretch " << i << ", tensor " << k << ", update " << update;
      }
    }
  }
}

TEST(UpdateMany, OfNoStretchesDoesNothing) {
  started(cuda::update_many<Adam<true>>({}, stream()));
}

double sum_of(const std::vector<at::Tensor>& all, std::int64_t shift) {
  std::vector<cuda::SquaredRow> rows;
  for (const at::Tensor& x : all) {
    const at::Tensor part = x.narrow(0, shift, x.numel() - shift);
    rows.push_back(
        {.values = part.data_ptr(),
         .type = x.scalar_type() == at::kFloat ? Element::fp32
             : x.scalar_type() == at::kHalf    ? Element::fp16
                                               : Element::bf16,
         .count = part.numel()});
  }
  const std::int64_t blocks =
      cuda::number_blocks(rows.data(), std::ssize(rows));
  const at::Tensor table = on_device(rows);
  const auto doubles = at::TensorOptions(device).dtype(at::kDouble);
  const at::Tensor parts = at::full({cuda::most_square_parts}, 1e9, doubles);
  const at::Tensor sum = at::full({}, -1, doubles);
  started(cuda::sum_of_squares(
      {static_cast<const cuda::SquaredRow*>(table.data_ptr()),
       std::ssize(rows),
       blocks},
      parts.data_ptr<double>(),
      sum.data_ptr<double>(),
      stream()));
  return sum.item<double>();
}

TEST(SumOfSquares, IsThatOfAllStretches) {
  at::manual_seed(8);
  for (const std::int64_t shift : {0, 1}) {
    std::vector<at::Tensor> all;
    double wanted = 0;
    for (int i = 0; i < 200; ++i) {
      const std::int64_t count = sizes[i % std::size(sizes)] + shift;
      all.push_back(cuda_test::random({count}, types[i % 3]));
      wanted += cuda_test::exact(all.back())
                    .narrow(0, shift, count - shift)
                    .square()
                    .sum()
                    .item<double>();
    }
    EXPECT_NEAR(sum_of(all, shift), wanted, 1e-7 * wanted);
    EXPECT_EQ(sum_of(all, shift), sum_of(all, shift));
  }
}

/// More blocks of elements than there are partial sums.
TEST(SumOfSquares, TakesLongStretches) {
  at::manual_seed(9);
  const at::Tensor one = cuda_test::random({17'000'003}, types[2]);
  const double wanted = cuda_test::exact(one).square().sum().item<double>();
  EXPECT_NEAR(sum_of({one}, 0), wanted, 1e-7 * wanted);
}

TEST(SumOfSquares, OfNothingIsZero) {
  EXPECT_EQ(sum_of({}, 0), 0);
}

} // namespace
} // namespace cairn::kernels::cuda_many_test
