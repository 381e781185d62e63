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

namespace {

std::uint16_t* words_of(const at::Tensor& x) {
  return static_cast<std::uint16_t*>(x.data_ptr());
}

} // namespace

kernels::Stretch stretch_of(const BucketShard& shard, Range in_bucket) {
  const std::int64_t skip = in_bucket.begin - shard.range.begin;
  kernels::Stretch stretch{
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
  stretch.narrow.key = static_cast<std::uint32_t>(shard.update);
  if (shard.weights.scalar_type() == at::kFloat) {
    stretch.weights = shard.weights.data_ptr<float>() + skip;
  } else {
    stretch.narrow.remainders = words_of(shard.weights) + skip;
  }
  for (std::size_t i = 0; i < shard.states.size(); ++i) {
    if (shard.states[i].scalar_type() == at::kFloat) {
      stretch.states[i] = shard.states[i].data_ptr<float>() + skip;
    } else {
      stretch.narrow.states[i] = words_of(shard.states[i]) + skip;
    }
  }
  return stretch;
}

} // namespace cairn::zero
