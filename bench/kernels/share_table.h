#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <functional>
#include <string>

namespace cairn::bench {

/// Seconds of a call on the GPU, where many are queued at a time.
double gpu_seconds(const std::function<void()>& work);

/// A table in Markdown: a row for each kernel with its time and the share that
/// its bytes or operations are of what the GPU can do in that time.
class ShareTable {
 public:
  enum class Of { bytes, operations };

  /// Prints the head. `ceiling` is what the GPU does in a second.
  ShareTable(Of of, double ceiling);

  /// Measures and prints. `amount` is what the kernel must do at least: bytes
  /// read and written, or multiplications and additions.
  void row(
      const char* kernel,
      const std::string& shape,
      double amount,
      const std::function<void()>& work) const;

 private:
  Of of_;
  double ceiling_;
};

/// The stream that kernels are given.
void* stream();
/// Throws unless a kernel could be started.
void started(const char* failure);
/// Random numbers on the GPU.
at::Tensor made(at::IntArrayRef shape, at::ScalarType type = at::kBFloat16);
/// Memory on the GPU, not cleared.
at::Tensor space(at::IntArrayRef shape, at::ScalarType type = at::kBFloat16);
float* floats(const at::Tensor& x);
double bytes_of(const at::Tensor& x);

} // namespace cairn::bench
