#pragma once

#include "zero/internal/layout.h"

#include <ATen/core/Tensor.h>
#include <cairn/kernels/stretch.h>

#include <vector>

namespace cairn::zero {

/// All that an update of one bucket's owned part reads and writes. The tensors
/// are on one device and have one element per element of `range`.
struct BucketShard {
  int bucket = 0;
  Range range;        ///< in the bucket
  at::Tensor weights; ///< fp32, or the remainders (int16) of those in `copy`
  at::Tensor gradient;
  at::Tensor gradient_factor{}; ///< as GradientFactor::on_gpu
  /// 16-bit weights, which the update writes, too; may be undefined.
  at::Tensor copy;
  std::vector<at::Tensor> states; ///< fp32 or bf16
  std::int64_t update = 0;        ///< the number of this update
};

/// The part of a shard that lies in `in_bucket`, in the form that kernels take.
kernels::Stretch stretch_of(const BucketShard& shard, Range in_bucket);

kernels::Element element_of(at::ScalarType type);

} // namespace cairn::zero
