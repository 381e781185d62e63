#pragma once

#include "pretrain/internal/pretraining_data.h"

#include <ATen/core/Tensor.h>
#include <cairn/config/flags.h>
#include <cairn/data/loader.h>
#include <cairn/data/samplers.h>
#include <cairn/data/tensor_batch.h>

#include <cstdint>
#include <memory>
#include <optional>

namespace cairn::pretrain {

/// Micro batches of one split, made ahead by other threads, on the device.
class BatchStream {
 public:
  struct Options {
    std::int64_t micro_batch = 1;
    data::DataParallel parallel{};
    std::int64_t consumed_samples = 0; ///< by all ranks, before the first
    config::LoaderType order = config::LoaderType::single;
    std::uint64_t seed = 1234;
    std::size_t workers = 2;
    at::Device device = at::kCPU;
  };
  BatchStream(SplitData data, const Options& options);

  /// The next batch, cut to `length` tokens if given. Throws DataError at the
  /// end of the data.
  data::TensorBatch next(std::optional<std::int64_t> length = std::nullopt);
  /// Samples that all ranks have consumed, including those of next().
  std::int64_t consumed_samples() const { return consumed_; }

 private:
  SplitData data_;
  at::Device device_;
  std::int64_t consumed_;
  std::unique_ptr<data::Loader> loader_;
};

} // namespace cairn::pretrain
