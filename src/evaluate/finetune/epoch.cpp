#include "evaluate/finetune/epoch.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/randperm.h>

#include <algorithm>

namespace cairn::evaluate {

std::int64_t EpochPlan::updates() const {
  return (samples + (keep_last ? batch() - 1 : 0)) / batch();
}

std::int64_t EpochPlan::samples_of(std::int64_t update) const {
  return std::clamp<std::int64_t>(samples - update * batch(), 0, batch());
}

std::vector<std::int64_t> EpochPlan::places(
    std::int64_t update,
    std::int64_t micro_batch_number) const {
  const std::int64_t first =
      update * batch() + micro_batch_number * micro_batch * ranks;
  std::vector<std::int64_t> result;
  for (std::int64_t i = 0; i < micro_batch; ++i) {
    result.push_back(first + i * ranks + rank);
  }
  return result;
}

std::vector<std::int64_t> shuffled(std::int64_t samples, std::uint64_t seed) {
  const at::Generator generator =
      at::make_generator<at::CPUGeneratorImpl>(seed);
  const at::Tensor order = at::randperm(samples, generator, at::kLong);
  const auto* begin = order.const_data_ptr<std::int64_t>();
  return {begin, begin + samples};
}

} // namespace cairn::evaluate
