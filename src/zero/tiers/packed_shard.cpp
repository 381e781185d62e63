#include "zero/tiers/packed_shard.h"

#include <cstddef>

namespace cairn::zero {

PackedShard::PackedShard(const ShardTensors& tensors)
    : elements_(tensors.weights.numel()) {
  const auto add = [&](const at::Tensor& tensor) {
    parts_.push_back({bytes_, tensor.scalar_type()});
    constexpr std::int64_t alignment = 64;
    const auto size = static_cast<std::int64_t>(tensor.nbytes());
    bytes_ += (size + alignment - 1) / alignment * alignment;
  };
  add(tensors.weights);
  for (const at::Tensor& state : tensors.states) {
    add(state);
  }
}

ShardTensors PackedShard::views(const at::Tensor& array) const {
  const auto view = [&](const Part& part) {
    const auto size =
        elements_ * static_cast<std::int64_t>(c10::elementSize(part.type));
    return array.narrow(0, part.begin, size).view(part.type);
  };
  ShardTensors tensors{.weights = view(parts_.at(0))};
  for (std::size_t i = 1; i < parts_.size(); ++i) {
    tensors.states.push_back(view(parts_[i]));
  }
  return tensors;
}

void PackedShard::pack(const ShardTensors& tensors, const at::Tensor& array)
    const {
  const ShardTensors to = views(array);
  to.weights.copy_(tensors.weights);
  for (std::size_t i = 0; i < tensors.states.size(); ++i) {
    to.states[i].copy_(tensors.states[i]);
  }
}

} // namespace cairn::zero
