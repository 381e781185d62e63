#pragma once

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include "kernels/internal/cuda/cuda.h"

// Helpers of the tests of GPU kernels, which also run on the stand-in for a
// GPU.

namespace cairn::kernels::cuda_test {

#ifdef CAIRN_CUDA_ON_CPU
inline constexpr at::DeviceType device = at::kCPU;
#else
inline constexpr at::DeviceType device = at::kCUDA;
#endif

struct Type {
  at::ScalarType dtype;
  Element element;
  double step; ///< relative distance of two neighbours
};

inline constexpr Type types[] = {
    {at::kFloat, Element::fp32, 5e-6},
    {at::kHalf, Element::fp16, 1e-3},
    {at::kBFloat16, Element::bf16, 8e-3}};

inline void* stream() {
  return cuda::current_stream(0);
}

inline void started(const char* failure) {
  ASSERT_EQ(failure, nullptr) << failure;
}

inline at::Tensor random(at::IntArrayRef shape, const Type& type) {
  return at::randn(shape, at::TensorOptions(device)).to(type.dtype);
}

inline at::Tensor exact(const at::Tensor& x) {
  return x.to(at::kCPU, at::kDouble);
}

/// Compares with a reference in double.
inline void expect_near(
    const at::Tensor& found,
    const at::Tensor& expected,
    double bound) {
  const at::Tensor difference = (exact(found) - expected).abs();
  const at::Tensor most = expected.abs() * bound + bound;
  EXPECT_TRUE((difference <= most).all().item<bool>())
      << "off by " << difference.max().item<double>() << ", bound " << bound;
}

} // namespace cairn::kernels::cuda_test
