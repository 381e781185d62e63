#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/kernels/stretch.h>
#include <cairn/zero/layout.h>

#include <vector>

namespace cairn::zero {

/// All that an update of one bucket's owned part reads and writes: tensors of
/// one device, one element per element of `range`.
struct BucketShard {
  int bucket = 0;
  Range range;        ///< in the bucket
  at::Tensor weights; ///< fp32
  at::Tensor gradient;
  at::Tensor copy; ///< 16-bit weights, written along; may be undefined
  std::vector<at::Tensor> states;
};

/// The part of a shard that lies in `in_bucket`, as the kernels take it.
kernels::Stretch stretch_of(const BucketShard& shard, Range in_bucket);

kernels::Element element_of(at::ScalarType type);

} // namespace cairn::zero
