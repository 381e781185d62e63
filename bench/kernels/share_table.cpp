#include "kernels/share_table.h"

#include "best_seconds.h"

#include <ATen/DeviceAccelerator.h>
#include <ATen/Functions.h>
#include <c10/cuda/CUDAStream.h>
#include <cairn/base/error.h>
#include <fmt/format.h>

#include <cstdio>

namespace cairn::bench {

double gpu_seconds(const std::function<void()>& work) {
  constexpr int calls = 20; // queued at a time, so that launching is not timed
  constexpr double budget = 0.15;
  work();
  at::accelerator::synchronizeDevice(0);
  return best_seconds(
             budget,
             [&] {
               for (int i = 0; i < calls; ++i) {
                 work();
               }
               at::accelerator::synchronizeDevice(0);
             }) /
      calls;
}

ShareTable::ShareTable(Of of, double ceiling) : of_(of), ceiling_(ceiling) {
  const bool bytes = of == Of::bytes;
  fmt::print(
      "{}: {:.2f} T{}/s\n\n",
      bytes ? "copies" : "matrix products at most",
      ceiling / 1e12,
      bytes ? "B" : "FLOP");
  fmt::print(
      "| kernel | shape | µs | {} |\n|---|---|---:|---:|---:|\n",
      bytes ? "MB | of the copy speed" : "TFLOP/s | of the most");
}

void ShareTable::row(
    const char* kernel,
    const std::string& shape,
    double amount,
    const std::function<void()>& work) const {
  const double time = gpu_seconds(work);
  fmt::print(
      "| {} | {} | {:.0f} | {:.0f} | {:.2f} |\n",
      kernel,
      shape,
      time * 1e6,
      of_ == Of::bytes ? amount / 1e6 : amount / time / 1e12,
      amount / time / ceiling_);
  std::fflush(stdout);
}

void* stream() {
  return c10::cuda::getCurrentCUDAStream().stream();
}

void started(const char* failure) {
  if (failure != nullptr) {
    throw InternalError({.what = failure});
  }
}

at::Tensor made(at::IntArrayRef shape, at::ScalarType type) {
  return at::randn(shape, at::TensorOptions(at::kCUDA)).to(type);
}

at::Tensor space(at::IntArrayRef shape, at::ScalarType type) {
  return at::empty(shape, at::TensorOptions(at::kCUDA).dtype(type));
}

float* floats(const at::Tensor& x) {
  return x.mutable_data_ptr<float>();
}

double bytes_of(const at::Tensor& x) {
  return static_cast<double>(x.nbytes());
}

} // namespace cairn::bench
