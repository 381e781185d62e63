#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/data/batch.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Belongs to the library cairn::data_tensors, the only part of data that needs
// libtorch.

namespace cairn::data {

/// A tensor [rows, columns] on the batch's own memory, which lives as long as
/// the tensor.
at::Tensor to_tensor(const BatchField& field);

/// A batch as tensors, under the names of its fields.
struct TensorBatch {
  std::vector<std::int64_t> indices;
  std::int64_t consumed_samples = 0;
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  /// The largest number of "labels" in a row that are not below 0, counted on
  /// the way to a GPU, which then need not be asked; 0 if not counted.
  std::int64_t most_labels = 0;

  /// Shares the batch's memory; copies nothing.
  explicit TensorBatch(const Batch& batch);
  TensorBatch() = default;

  /// Throws InternalError when no tensor has this name.
  const at::Tensor& operator[](std::string_view name) const;
  /// The batch on that device. From pinned memory the copy runs asynchronously.
  TensorBatch to(at::Device device) const;
};

/// Allocator of page-locked memory for Loader and collate(), from libtorch's
/// cache. GPUs read this memory without a copy in between. Throws ConfigError
/// without GPU support in the build or without a GPU.
HostAllocator pinned_allocator();

} // namespace cairn::data
