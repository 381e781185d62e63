// The GPU's kernels against the CPU's, bit for bit where they promise it.
#include <cairn/optim/rule.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kernels/internal/cpu/cpu.h"
#include "kernels/internal/cuda/clip.h"
#include "kernels/internal/cuda/cuda.h"

namespace cairn::kernels::cuda_kernels_test {
namespace {

constexpr Element elements[] = {Element::fp32, Element::fp16, Element::bf16};

void succeed(cudaError_t error) {
  ASSERT_EQ(error, cudaSuccess) << cudaGetErrorString(error);
}

void started(const char* failure) {
  ASSERT_EQ(failure, nullptr) << failure;
}

/// Bytes on the GPU, with a copy on the CPU to fill and to look at.
class DeviceBytes {
 public:
  explicit DeviceBytes(std::vector<char> bytes) : bytes_(std::move(bytes)) {
    succeed(cudaMalloc(&device_, bytes_.size() + 1));
    succeed(cudaMemcpy(
        device_,
        bytes_.data(),
        bytes_.size(),
        cudaMemcpyHostToDevice));
  }
  ~DeviceBytes() { cudaFree(device_); }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;

  char* device() const { return static_cast<char*>(device_); }
  template <class T>
  T* as() const {
    return static_cast<T*>(device_);
  }
  std::vector<char> fetch() const {
    std::vector<char> bytes(bytes_.size());
    succeed(cudaMemcpy(
        bytes.data(),
        device_,
        bytes.size(),
        cudaMemcpyDeviceToHost));
    return bytes;
  }

 private:
  std::vector<char> bytes_;
  void* device_ = nullptr;
};

template <class T>
std::vector<char> bytes_of_all(const std::vector<T>& values) {
  std::vector<char> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::vector<float> floats(const std::vector<char>& bytes, Element element) {
  std::vector<float> values(
      bytes.size() / static_cast<std::size_t>(bytes_of(element)));
  cpu::convert(
      bytes.data(),
      element,
      values.data(),
      Element::fp32,
      std::ssize(values));
  return values;
}

std::vector<char> as_element(
    const std::vector<float>& values,
    Element element) {
  std::vector<char> bytes(
      values.size() * static_cast<std::size_t>(bytes_of(element)));
  cpu::convert(
      values.data(),
      Element::fp32,
      bytes.data(),
      element,
      std::ssize(values));
  return bytes;
}

/// Random numbers of all sizes; with denormals, inf and nan if `special`.
std::vector<float> numbers(std::size_t count, unsigned seed, bool special) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> mantissa(-1, 1);
  std::uniform_int_distribution<int> exponent(-20, 4);
  std::vector<float> values(count);
  for (float& value : values) {
    value = std::ldexp(mantissa(random), exponent(random));
    if (special && random() % 16 == 0) {
      const auto exact = static_cast<std::uint32_t>(random());
      value = std::bit_cast<float>(exact);
    }
  }
  return values;
}

void expect_same(
    const std::vector<char>& found,
    const std::vector<char>& expected,
    Element element) {
  const std::vector<float> a = floats(found, element);
  const std::vector<float> b = floats(expected, element);
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

template <class Formula>
class GpuFormula : public ::testing::Test {};

template <class... Formula>
using TestTypes = ::testing::Types<Formula...>;

TYPED_TEST_SUITE(GpuFormula, Formulas<TestTypes>);

template <class Formula>
Formula some_constants() {
  float values[sizeof(Formula) / sizeof(float)];
  float next = 0.9F;
  for (float& value : values) {
    value = next;
    next *= 0.61F;
  }
  return std::bit_cast<Formula>(values);
}

template <class Formula>
void compare(
    std::size_t count,
    std::size_t shift,
    Element gradient,
    Element copy_type,
    bool to_target) {
  SCOPED_TRACE(
      ::testing::Message() << count << " elements, shift " << shift
                           << ", gradients " << static_cast<int>(gradient)
                           << ", copy " << static_cast<int>(copy_type)
                           << ", target " << to_target);
  const std::size_t size = count + shift;
  std::vector<float> second = numbers(size, 3, true);
  for (float& value : second) {
    value = std::abs(value);
  }
  // weights, gradients, first, second, copy, target
  std::vector<std::vector<char>> host{
      bytes_of_all(numbers(size, 1, true)),
      as_element(numbers(size, 2, true), gradient),
      bytes_of_all(numbers(size, 4, true)),
      bytes_of_all(second),
      as_element(std::vector<float>(size), copy_type),
      bytes_of_all(std::vector<float>(size))};
  std::vector<std::unique_ptr<DeviceBytes>> device;
  for (const auto& bytes : host) {
    device.push_back(std::make_unique<DeviceBytes>(bytes));
  }
  const auto stretch_of = [&](auto bytes_at) {
    const auto shifted = [&](int which, Element element) {
      return bytes_at(which) +
          shift * static_cast<std::size_t>(bytes_of(element));
    };
    const auto floats_at = [&](int which) {
      return reinterpret_cast<float*>(shifted(which, Element::fp32));
    };
    return std::pair(
        Stretch{
            .weights = floats_at(0),
            .gradients = shifted(1, gradient),
            .gradient_type = gradient,
            .copy = shifted(4, copy_type),
            .copy_type = copy_type,
            .states = {floats_at(2), floats_at(3)},
            .count = static_cast<std::int64_t>(count)},
        to_target ? floats_at(5) : nullptr);
  };
  const Formula formula = some_constants<Formula>();
  const auto [on_cpu, cpu_target] =
      stretch_of([&](int which) { return host[which].data(); });
  const auto [on_gpu, gpu_target] =
      stretch_of([&](int which) { return device[which]->device(); });
  cpu::update(on_cpu, formula, cpu_target);
  started(cuda::update(on_gpu, formula, gpu_target, nullptr));
  for (const std::size_t which : {0U, 2U, 3U, 4U, 5U}) {
    SCOPED_TRACE(which);
    expect_same(
        device[which]->fetch(),
        host[which],
        which == 4 ? copy_type : Element::fp32);
  }
}

TYPED_TEST(GpuFormula, GivesTheBitsOfTheCpu) {
  for (const std::size_t count : {1U, 5U, 1024U, 100003U}) {
    for (const std::size_t shift : {0U, 1U}) {
      for (const Element gradient : elements) {
        for (const Element copy : elements) {
          compare<TypeParam>(count, shift, gradient, copy, false);
        }
        compare<TypeParam>(count, shift, gradient, Element::bf16, true);
        if (this->HasFatalFailure()) {
          return;
        }
      }
    }
  }
}

/// Weights as bf16 and remainders, states as bf16.
template <class Formula>
void compare_narrow(std::size_t count, std::size_t shift) {
  SCOPED_TRACE(::testing::Message() << count << " elements, shift " << shift);
  const std::size_t size = count + shift;
  const auto bf16 = [&](unsigned seed, bool positive) {
    std::vector<float> values = numbers(size, seed, true);
    for (float& value : values) {
      value = positive ? std::abs(value) : value;
    }
    return as_element(values, Element::bf16);
  };
  std::mt19937 random(5);
  std::vector<std::uint16_t> remainders(size);
  for (std::uint16_t& each : remainders) {
    each = static_cast<std::uint16_t>(random());
  }
  // copy, gradients, first, second, remainders
  std::vector<std::vector<char>> host{
      bf16(1, false),
      bf16(2, false),
      bf16(3, false),
      bf16(4, true),
      bytes_of_all(remainders)};
  std::vector<std::unique_ptr<DeviceBytes>> device;
  for (const auto& bytes : host) {
    device.push_back(std::make_unique<DeviceBytes>(bytes));
  }
  const auto stretch_of = [&](auto bytes_at) {
    const auto at = [&](int which) {
      return reinterpret_cast<std::uint16_t*>(bytes_at(which)) + shift;
    };
    return Stretch{
        .gradients = at(1),
        .gradient_type = Element::bf16,
        .copy = at(0),
        .narrow = {.remainders = at(4), .states = {at(2), at(3)}, .key = 7},
        .count = static_cast<std::int64_t>(count)};
  };
  const Formula formula = some_constants<Formula>();
  cpu::update(
      stretch_of([&](int which) { return host[which].data(); }),
      formula);
  started(cuda::update(
      stretch_of([&](int which) { return device[which]->device(); }),
      formula,
      nullptr,
      nullptr));
  for (const std::size_t which : {0U, 2U, 3U}) {
    SCOPED_TRACE(which);
    expect_same(device[which]->fetch(), host[which], Element::bf16);
  }
  EXPECT_EQ(device[4]->fetch(), host[4]);
}

TEST(GpuNarrowStates, GiveTheBitsOfTheCpu) {
  for (const std::size_t count : {1U, 5U, 1024U, 100003U}) {
    for (const std::size_t shift : {0U, 1U}) {
      compare_narrow<Adam<true>>(count, shift);
      compare_narrow<Lion>(count, shift);
    }
  }
}

TEST(GpuClip, GivesTheNormAndTheFactor) {
  std::vector<float> norms(300);
  double squares = 0;
  for (std::size_t i = 0; i < norms.size(); ++i) {
    norms[i] = 0.01F * static_cast<float>(i);
    squares += static_cast<double>(norms[i]) * static_cast<double>(norms[i]);
  }
  const DeviceBytes given(bytes_of_all(norms));
  for (const double limit : {0.0, 1.0, 1e6}) {
    const DeviceBytes norm(std::vector<char>(sizeof(double)));
    const DeviceBytes factor(std::vector<char>(sizeof(float)));
    started(cuda::clip_factor(
        given.as<float>(),
        std::ssize(norms),
        {.factor = 0.5, .limit = limit},
        norm.as<double>(),
        factor.as<float>(),
        nullptr));
    double found = 0;
    std::memcpy(&found, norm.fetch().data(), sizeof found);
    const double expected = 0.5 * std::sqrt(squares);
    EXPECT_NEAR(found, expected, 1e-12 * expected);
    float clipped = 0;
    std::memcpy(&clipped, factor.fetch().data(), sizeof clipped);
    EXPECT_FLOAT_EQ(
        clipped,
        static_cast<float>(limit == 1 ? 0.5 / (expected + 1e-6) : 0.5));
  }
}

TEST(GpuScale, GivesTheBitsOfTheCpu) {
  const float factor = 0.3F;
  const DeviceBytes on_device(bytes_of_all(std::vector{factor}));
  for (const std::size_t count : {1U, 1001U, 300000U}) {
    for (const Element from : elements) {
      const auto bytes = as_element(numbers(count, 6, true), from);
      std::vector<float> scaled = floats(bytes, from);
      for (float& value : scaled) {
        value *= factor;
      }
      for (const Element to : elements) {
        const auto expected = as_element(scaled, to);
        const DeviceBytes given(bytes);
        const DeviceBytes other(expected);
        // In its place where the types allow it.
        const DeviceBytes& result = from == to ? given : other;
        started(cuda::scale(
            given.device(),
            from,
            on_device.as<float>(),
            result.device(),
            to,
            static_cast<std::int64_t>(count),
            nullptr));
        expect_same(result.fetch(), expected, to);
      }
    }
  }
}

TEST(GpuRule, TakesAStreamAndMatchesTheCpu) {
  const auto rule = optim::make_rule({.type = "adamw", .params = {}});
  const std::size_t count = 10000;
  std::vector<float> weights = numbers(count, 1, false);
  std::vector<float> first(count);
  std::vector<float> second(count);
  std::vector<float> gradients = numbers(count, 2, false);
  const DeviceBytes gpu_weights(bytes_of_all(weights));
  const DeviceBytes gpu_first(bytes_of_all(first));
  const DeviceBytes gpu_second(bytes_of_all(second));
  const DeviceBytes gpu_gradients(bytes_of_all(gradients));
  cudaStream_t stream = nullptr;
  succeed(cudaStreamCreate(&stream));
  for (std::int64_t step = 1; step <= 3; ++step) {
    const optim::GroupValues values{.lr = 0.1, .weight_decay = 0.01};
    const optim::StepValues now{.step = step, .gradient_factor = 0.5};
    rule->update(
        {.weights = weights.data(),
         .gradients = gradients.data(),
         .states = {first.data(), second.data()},
         .count = count},
        values,
        now,
        {});
    rule->update(
        {.weights = gpu_weights.as<float>(),
         .gradients = gpu_gradients.as<float>(),
         .states = {gpu_first.as<float>(), gpu_second.as<float>()},
         .count = count},
        values,
        now,
        {.cuda = true, .stream = stream});
  }
  succeed(cudaStreamSynchronize(stream));
  succeed(cudaStreamDestroy(stream));
  expect_same(gpu_weights.fetch(), bytes_of_all(weights), Element::fp32);
  expect_same(gpu_second.fetch(), bytes_of_all(second), Element::fp32);
}

} // namespace
} // namespace cairn::kernels::cuda_kernels_test
