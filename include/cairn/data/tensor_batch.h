#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/data/batch.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Library cairn::data_tensors: the only part of data that needs libtorch.

namespace cairn::data {

/// [rows, columns], the batch's own memory, which lives as long as the tensor.
at::Tensor to_tensor(const BatchField& field);

/// A batch as tensors, under the names of its fields.
struct TensorBatch {
  std::vector<std::int64_t> indices;
  std::int64_t consumed_samples = 0;
  std::vector<std::pair<std::string, at::Tensor>> tensors;

  /// Nothing is copied.
  explicit TensorBatch(const Batch& batch);
  TensorBatch() = default;

  /// Throws InternalError when there is none of this name.
  const at::Tensor& operator[](std::string_view name) const;
  /// On that device. From pinned memory the copy runs while the host goes on.
  TensorBatch to(at::Device device) const;
};

/// For Loader and collate(): page-locked memory, which GPUs read without a copy
/// in between, from libtorch's cache of it. Without GPU support built in, or
/// without a GPU, it is a ConfigError.
HostAllocator pinned_allocator();

} // namespace cairn::data
