#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

/// Random matrices for measurements. They follow each other in a memory that is
/// larger than any cache, so that none is found in one because it was used just
/// before.
class Operands {
 public:
  /// Memory of `bytes` on a device. Its values have the normal distribution:
  /// what a product's numbers are decides how much power it takes, and so how
  /// fast a GPU may run.
  Operands(at::Device device, std::int64_t bytes);

  /// The next rows x columns values, bf16 or an fp8 type.
  at::Tensor next(
      std::int64_t rows,
      std::int64_t columns,
      at::ScalarType type = at::kBFloat16);
  at::Device device() const { return wide_.device(); }

 private:
  at::Tensor wide_;   ///< bf16
  at::Tensor narrow_; ///< e4m3
  std::int64_t used_wide_ = 0;
  std::int64_t used_narrow_ = 0;
};
