#include "zero/internal/bucket_shard.h"

#include "kernels/internal/element_of.h"

#include <cairn/base/error.h>

namespace cairn::zero {

kernels::Element element_of(at::ScalarType type) {
  if (const auto element = kernels::element_of(type)) {
    return *element;
  }
  throw UsageError(
      {.what = "parameters are fp32, fp16 or bf16",
       .values = c10::toString(type),
       .remedy = "convert the model, e.g. module.to(torch::kFloat)"});
}

kernels::Stretch stretch_of(const BucketShard& shard, Range in_bucket) {
  const std::int64_t skip = in_bucket.begin - shard.range.begin;
  kernels::Stretch stretch{
      .weights = shard.weights.data_ptr<float>() + skip,
      .gradients = static_cast<const char*>(shard.gradient.const_data_ptr()) +
          skip * static_cast<std::int64_t>(shard.gradient.element_size()),
      .gradient_type = element_of(shard.gradient.scalar_type()),
      .count = in_bucket.size()};
  if (shard.copy.defined()) {
    stretch.copy = static_cast<char*>(shard.copy.data_ptr()) +
        skip * static_cast<std::int64_t>(shard.copy.element_size());
    stretch.copy_type = element_of(shard.copy.scalar_type());
  }
  if (shard.gradient_factor.defined()) {
    stretch.gradient_factor = shard.gradient_factor.const_data_ptr<float>();
  }
  for (std::size_t i = 0; i < shard.states.size(); ++i) {
    stretch.states[i] = shard.states[i].data_ptr<float>() + skip;
  }
  return stretch;
}

} // namespace cairn::zero
