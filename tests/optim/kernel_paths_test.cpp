// Every instruction set against the portable code, bit for bit.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/internal/cpu/cpu.h"

namespace cairn::kernels::cpu::kernel_paths_test {
namespace {

constexpr Element elements[] = {Element::fp32, Element::fp16, Element::bf16};

std::vector<std::uint32_t> special_bits() {
  return {
      0x00000000, 0x80000000,             // zeros
      0x00000001, 0x807fffff, 0x00400000, // denormals
      0x3f800000, 0xbf800001, 0x477fe000, 0x477fefff, 0x477ff000, 0x47800000,
      0x38800000, 0x387fffff, 0x33000000, 0x33000001, 0x32ffffff, // fp16's ends
      0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, // the largest, and inf
      0x7fc00000, 0xffc12345, 0x7f800001, // nan, one of them signalling
      0x3f808000, 0x3f818000, 0x3f807fff, 0x3f808001, // ties of bf16
      0x3f801000, 0x3f803000, 0x3f800fff, 0x3f801001, // and of fp16
  };
}

/// Random numbers of all sizes, with special ones between.
std::vector<float> numbers(std::size_t count, unsigned seed, bool special) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> mantissa(-1, 1);
  std::uniform_int_distribution<int> exponent(-20, 4);
  const auto specials = special_bits();
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = std::ldexp(mantissa(random), exponent(random));
    if (special && random() % 8 == 0) {
      values[i] = std::bit_cast<float>(specials[random() % specials.size()]);
    }
  }
  return values;
}

/// Equal bits, or both nan: which nan comes out of a sum is not defined.
void expect_same(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!(std::isnan(a[i]) && std::isnan(b[i]))) {
      ASSERT_EQ(
          std::bit_cast<std::uint32_t>(a[i]),
          std::bit_cast<std::uint32_t>(b[i]))
          << "element " << i << ": " << a[i] << " and " << b[i];
    }
  }
}

/// The buffers of one update, at an odd distance from any alignment.
struct Buffers {
  std::int64_t count;
  std::size_t shift;
  std::vector<float> weights;
  std::vector<float> first;
  std::vector<float> second;
  std::vector<float> target;
  std::vector<float> gradients;
  std::vector<std::uint16_t> narrow; // gradients in 16 bits
  std::vector<float> copy;

  Buffers(
      std::int64_t elements,
      std::size_t offset,
      unsigned seed,
      bool special)
      : count(elements), shift(offset) {
    const std::size_t size = static_cast<std::size_t>(elements) + shift;
    weights = numbers(size, seed, special);
    first = numbers(size, seed + 1, special);
    second = numbers(size, seed + 2, special);
    for (float& value : second) {
      value = std::abs(value);
    }
    target.assign(size, 7.F);
    gradients = numbers(size, seed + 3, special);
    narrow.resize(size);
    copy.assign(size, 0.F);
  }

  Stretch stretch(Element gradient, bool copies, Element copy_type) {
    if (gradient != Element::fp32) {
      portable_table.convert(
          gradients.data(),
          Element::fp32,
          narrow.data(),
          gradient,
          std::ssize(gradients));
    }
    // Offsets in units of the element: never more than its own alignment.
    char* copied = reinterpret_cast<char*>(copy.data()) +
        static_cast<std::int64_t>(shift) * bytes_of(copy_type);
    return {
        .weights = weights.data() + shift,
        .gradients = gradient == Element::fp32
            ? static_cast<const void*>(gradients.data() + shift)
            : static_cast<const void*>(narrow.data() + shift),
        .gradient_type = gradient,
        .copy = copies ? copied : nullptr,
        .copy_type = copy_type,
        .states = {first.data() + shift, second.data() + shift},
        .count = count};
  }
};

template <class Formula>
void compare_update(const Table& table, const Formula& formula) {
  for (const std::int64_t count : {0, 1, 3, 7, 16, 33, 100, 1027}) {
    for (const std::size_t shift : {0U, 1U, 3U}) {
      for (const Element gradient : elements) {
        for (int copies = 0; copies < 5; ++copies) {
          // 0 to 2: a copy of that type; 3: none; 4: none, to a target
          const Element copy = copies < 3 ? elements[copies] : Element::fp32;
          SCOPED_TRACE(
              ::testing::Message()
              << table.name << ", " << count << " elements, shift " << shift
              << ", gradients " << static_cast<int>(gradient) << ", copy "
              << copies);
          const unsigned seed = static_cast<unsigned>(count) * 31U + 5;
          Buffers expected(count, shift, seed, count > 30);
          Buffers found = expected;
          float* expected_target =
              copies == 4 ? expected.target.data() + shift : nullptr;
          float* found_target =
              copies == 4 ? found.target.data() + shift : nullptr;
          std::get<Update<Formula>>(portable_table.updates)(
              expected.stretch(gradient, copies < 3, copy),
              formula,
              expected_target);
          std::get<Update<Formula>>(table.updates)(
              found.stretch(gradient, copies < 3, copy),
              formula,
              found_target);
          expect_same(found.weights, expected.weights);
          expect_same(found.first, expected.first);
          expect_same(found.second, expected.second);
          expect_same(found.target, expected.target);
          if (copies < 3 && copy != Element::fp32) {
            std::vector<float> a(found.copy.size());
            std::vector<float> b(found.copy.size());
            portable_table.convert(
                found.copy.data(),
                copy,
                a.data(),
                Element::fp32,
                std::ssize(a));
            portable_table.convert(
                expected.copy.data(),
                copy,
                b.data(),
                Element::fp32,
                std::ssize(b));
            expect_same(a, b);
          } else {
            expect_same(found.copy, expected.copy);
          }
          if (::testing::Test::HasFatalFailure()) {
            return;
          }
        }
      }
    }
  }
}

template <class Formula>
class EveryFormula : public ::testing::Test {};

template <class... Formula>
using TestTypes = ::testing::Types<Formula...>;

TYPED_TEST_SUITE(EveryFormula, Formulas<TestTypes>);

/// A formula with some number for each of its members, which are all floats.
template <class Formula>
Formula some_constants() {
  static_assert(sizeof(Formula) % sizeof(float) == 0);
  float values[sizeof(Formula) / sizeof(float)];
  float next = 0.9F;
  for (float& value : values) {
    value = next;
    next *= 0.61F;
  }
  return std::bit_cast<Formula>(values);
}

TYPED_TEST(EveryFormula, GivesTheSameBitsOnEveryPath) {
  for (const Table* table : runnable_tables()) {
    compare_update(*table, some_constants<TypeParam>());
  }
}

TYPED_TEST(EveryFormula, GivesTheSameBitsHoweverItIsSplit) {
  const TypeParam formula = some_constants<TypeParam>();
  Buffers whole(1001, 0, 3, false);
  Buffers split = whole;
  update(whole.stretch(Element::bf16, true, Element::bf16), formula);
  const Stretch stretch = split.stretch(Element::bf16, true, Element::bf16);
  for (std::int64_t offset = 0; offset < 1100; offset += 37) {
    update(part_of(stretch, offset, 37), formula);
  }
  expect_same(split.weights, whole.weights);
  expect_same(split.first, whole.first);
  const auto copy_of = [](const Buffers& buffers) {
    std::vector<float> values(1001);
    portable_table.convert(
        buffers.copy.data(),
        Element::bf16,
        values.data(),
        Element::fp32,
        1001);
    return values;
  };
  expect_same(copy_of(split), copy_of(whole));
}

TEST(KernelPaths, ThereIsMoreThanThePortableOne) {
#if defined(__aarch64__)
  ASSERT_GE(runnable_tables().size(), 2U);
#endif
  EXPECT_STREQ(runnable_tables()[0]->name, "portable");
  EXPECT_EQ(&table(), runnable_tables().back());
}

TEST(Convert, KnowsEveryValueOfSixteenBits) {
  std::vector<std::uint16_t> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i] = static_cast<std::uint16_t>(i);
  }
  for (const Table* table : runnable_tables()) {
    for (const Element type : {Element::fp16, Element::bf16}) {
      SCOPED_TRACE(table->name);
      std::vector<float> wide(all.size());
      std::vector<std::uint16_t> back(all.size());
      table->convert(all.data(), type, wide.data(), Element::fp32, 65536);
      table->convert(wide.data(), Element::fp32, back.data(), type, 65536);
      const int mantissa = type == Element::fp16 ? 10 : 7;
      const int bias = type == Element::fp16 ? 15 : 127;
      for (std::uint32_t bits = 0; bits < 65536; ++bits) {
        // The value, computed in a plain way.
        const std::uint32_t fraction = bits & ((1U << mantissa) - 1U);
        const int exponent = static_cast<int>(bits >> mantissa) &
            (type == Element::fp16 ? 31 : 255);
        const bool top = exponent == (type == Element::fp16 ? 31 : 255);
        double value = std::ldexp(
            fraction + (exponent > 0 ? std::ldexp(1.0, mantissa) : 0.0),
            std::max(exponent, 1) - bias - mantissa);
        if (top) {
          value = fraction == 0 ? std::numeric_limits<double>::infinity()
                                : std::numeric_limits<double>::quiet_NaN();
        }
        value = bits & 0x8000U ? -value : value;
        if (std::isnan(value)) {
          ASSERT_TRUE(std::isnan(wide[bits])) << bits;
          ASSERT_GT(
              back[bits] & 0x7fffU,
              type == Element::fp16 ? 0x7c00U : 0x7f80U);
          continue;
        }
        ASSERT_EQ(static_cast<double>(wide[bits]), value) << bits;
        ASSERT_EQ(std::signbit(wide[bits]), std::signbit(value)) << bits;
        ASSERT_EQ(back[bits], bits);
      }
    }
  }
}

TEST(Convert, RoundsToNearestEven) {
  // Every float between two neighbours of 16 bits goes to the nearer one, and
  // the middle to the even one. Tried: neighbours and the floats around their
  // middle.
  for (const Table* table : runnable_tables()) {
    for (const Element type : {Element::fp16, Element::bf16}) {
      const std::uint32_t top = type == Element::fp16 ? 0x7bff : 0x7f7f;
      std::vector<std::uint16_t> low(top);
      for (std::uint32_t i = 0; i < top; ++i) {
        low[i] = static_cast<std::uint16_t>(i);
      }
      std::vector<float> values(top);
      portable_table
          .convert(low.data(), type, values.data(), Element::fp32, top);
      std::vector<float> around;
      std::vector<std::uint32_t> expected;
      for (std::uint32_t i = 0; i + 1 < top; ++i) {
        const float middle = static_cast<float>(
            (static_cast<double>(values[i]) + values[i + 1]) / 2);
        for (const float value :
             {std::nextafter(middle, 0.F),
              middle,
              std::nextafter(middle, 1e38F)}) {
          around.push_back(value);
          expected.push_back(
              value < middle       ? i
                  : value > middle ? i + 1
                                   : (i + 1) & ~1U);
        }
      }
      std::vector<std::uint16_t> found(around.size());
      table->convert(
          around.data(),
          Element::fp32,
          found.data(),
          type,
          std::ssize(around));
      for (std::size_t i = 0; i < around.size(); ++i) {
        ASSERT_EQ(found[i], expected[i]) << table->name << " " << around[i];
      }
    }
  }
}

TEST(Convert, BeyondTheRangeIsInf) {
  const float values[] = {65519.F, 65520.F, -1e30F, 3.4e38F, 1e-30F};
  for (const Table* table : runnable_tables()) {
    std::uint16_t half[5];
    std::uint16_t brain[5];
    table->convert(values, Element::fp32, half, Element::fp16, 5);
    table->convert(values, Element::fp32, brain, Element::bf16, 5);
    EXPECT_EQ(half[0], 0x7bff);
    EXPECT_EQ(half[1], 0x7c00);
    EXPECT_EQ(half[2], 0xfc00);
    EXPECT_EQ(half[4], 0);
    EXPECT_EQ(brain[3], 0x7f80); // rounds up, and over
  }
}

TEST(Convert, BetweenTheNarrowTypes) {
  const std::uint16_t half[] = {0x3c00, 0xc000, 0x7c00};
  std::uint16_t brain[3] = {};
  convert(half, Element::fp16, brain, Element::bf16, 3);
  EXPECT_EQ(brain[0], 0x3f80);
  EXPECT_EQ(brain[1], 0xc000);
  EXPECT_EQ(brain[2], 0x7f80);
  convert(half, Element::fp16, brain, Element::fp16, 3);
  EXPECT_EQ(brain[1], 0xc000);
}

TEST(SumOfSquares, IsTheSameOnEveryPathAndExactEnough) {
  for (const Table* table : runnable_tables()) {
    for (const std::size_t count : {0U, 1U, 15U, 16U, 17U, 1000U, 100001U}) {
      const std::vector<float> values = numbers(count + 1, 5, false);
      long double exact = 0;
      for (std::size_t i = 1; i <= count; ++i) {
        exact += static_cast<long double>(values[i]) * values[i];
      }
      const auto size = static_cast<std::int64_t>(count);
      const double sum =
          table->sum_of_squares(values.data() + 1, Element::fp32, size);
      EXPECT_NEAR(sum, static_cast<double>(exact), 1e-12 * sum);
      EXPECT_EQ(
          sum,
          portable_table
              .sum_of_squares(values.data() + 1, Element::fp32, size));
      for (const Element type : {Element::fp16, Element::bf16}) {
        std::vector<std::uint16_t> narrow(count + 1);
        portable_table.convert(
            values.data(),
            Element::fp32,
            narrow.data(),
            type,
            size + 1);
        EXPECT_EQ(
            table->sum_of_squares(narrow.data() + 1, type, size),
            portable_table.sum_of_squares(narrow.data() + 1, type, size));
      }
    }
  }
}

TEST(SumOfSquares, OverflowsOnlyWhereTheInputIsInfinite) {
  for (const Table* table : runnable_tables()) {
    std::vector<float> values(1000, 3e38F);
    const double sum =
        table->sum_of_squares(values.data(), Element::fp32, 1000);
    EXPECT_NEAR(sum, 9e79, 1e73);
    for (const std::size_t at : {0U, 500U, 999U}) {
      for (const float bad :
           {std::numeric_limits<float>::infinity(), std::nanf("")}) {
        std::vector<float> broken = values;
        broken[at] = bad;
        EXPECT_FALSE(std::isfinite(
            table->sum_of_squares(broken.data(), Element::fp32, 1000)));
      }
    }
    values.assign(1000, 1e-45F); // denormals count
    EXPECT_GT(table->sum_of_squares(values.data(), Element::fp32, 1000), 0);
  }
}

/// The values as elements of a type.
std::vector<char> as_element(const std::vector<float>& values, Element type) {
  std::vector<char> bytes(
      values.size() * static_cast<std::size_t>(bytes_of(type)));
  portable_table.convert(
      values.data(),
      Element::fp32,
      bytes.data(),
      type,
      std::ssize(values));
  return bytes;
}

TEST(FirstNonFinite, FindsThePlace) {
  for (const Table* table : runnable_tables()) {
    for (const Element type : elements) {
      std::vector<float> values(10000, 65504.F);
      const auto first = [&] {
        return table->first_non_finite(
            as_element(values, type).data(),
            type,
            std::ssize(values));
      };
      EXPECT_EQ(first(), -1);
      values[9999] = -std::numeric_limits<float>::infinity();
      EXPECT_EQ(first(), 9999);
      values[4097] = std::nanf("");
      EXPECT_EQ(first(), 4097);
      values[0] = std::numeric_limits<float>::infinity();
      EXPECT_EQ(first(), 0);
    }
    EXPECT_EQ(table->first_non_finite(nullptr, Element::fp32, 0), -1);
  }
}

TEST(Accumulate, AddsOrOverwrites) {
  for (const Table* table : runnable_tables()) {
    for (const Element type : elements) {
      const std::size_t count = 77;
      const auto bytes = as_element(numbers(count, 9, false), type);
      std::vector<float> from(count);
      portable_table.convert(
          bytes.data(),
          type,
          from.data(),
          Element::fp32,
          std::ssize(from));
      std::vector<float> into(count, 3.F);
      table->accumulate(into.data(), bytes.data(), type, 77, {.factor = 0.3F});
      for (std::size_t i = 0; i < count; ++i) {
        ASSERT_EQ(into[i], std::fma(from[i], 0.3F, 3.F));
      }
      into.assign(count, std::nanf(""));
      table->accumulate(
          into.data(),
          bytes.data(),
          type,
          77,
          {.factor = 0.3F, .overwrite = true});
      for (std::size_t i = 0; i < count; ++i) {
        ASSERT_EQ(into[i], from[i] * 0.3F);
      }
    }
  }
}

} // namespace
} // namespace cairn::kernels::cpu::kernel_paths_test
