#include "generate/rank_links.h"

#include <ATen/ops/from_blob.h>

#include <utility>

namespace cairn::generate {
namespace {

/// The numbers as a tensor over the same memory.
at::Tensor tensor_of(std::span<float> numbers) {
  return at::from_blob(
      numbers.data(),
      {static_cast<std::int64_t>(numbers.size())},
      at::TensorOptions(at::kFloat));
}

} // namespace

RankLinks::RankLinks(
    distributed::ProcessGroup tensor,
    distributed::ProcessGroup stages)
    : tensor_(std::move(tensor)),
      stages_(std::move(stages)),
      shares_layers_(tensor_.size() > 1) {}

void RankLinks::sum(std::span<float> numbers) const {
  tensor_.all_reduce(tensor_of(numbers)).wait();
}

void RankLinks::gather(std::span<float> own, std::span<float> all) const {
  tensor_.all_gather_into(tensor_of(all), tensor_of(own)).wait();
}

void RankLinks::to_next_stage(std::span<float> numbers) const {
  stages_.send(tensor_of(numbers), stages_.rank() + 1).wait();
}

void RankLinks::from_previous_stage(std::span<float> numbers) const {
  stages_.recv(tensor_of(numbers), stages_.rank() - 1).wait();
}

void RankLinks::to_first_stage(std::span<float> numbers) const {
  stages_.send(tensor_of(numbers), 0).wait();
}

void RankLinks::from_last_stage(std::span<float> numbers) const {
  stages_.recv(tensor_of(numbers), stages_.size() - 1).wait();
}

} // namespace cairn::generate
