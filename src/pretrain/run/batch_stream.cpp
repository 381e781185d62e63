#include "pretrain/run/batch_stream.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <cstddef>
#include <optional>
#include <utility>

namespace cairn::pretrain {

namespace {

data::Loader::Sampler sampler_of(
    std::int64_t samples,
    const BatchStream::Options& options) {
  if (options.order == config::LoaderType::cyclic) {
    return [sampler = data::CyclicSampler(
                {.total_samples = samples,
                 .consumed_samples = options.consumed_samples,
                 .micro_batch_size = options.micro_batch,
                 .parallel = options.parallel,
                 .seed = options.seed})]() mutable { return sampler.next(); };
  }
  return [sampler = data::SequentialSampler(
              {.total_samples = samples,
               .consumed_samples = options.consumed_samples,
               .micro_batch_size = options.micro_batch,
               .parallel = options.parallel})]() mutable {
    return sampler.next();
  };
}

} // namespace

BatchStream::BatchStream(SplitData data, const Options& options)
    : data_(std::move(data)),
      device_(options.device),
      consumed_(options.consumed_samples) {
  const data::HostAllocator allocate =
      device_.is_cuda() ? data::pinned_allocator() : data::allocate_host;
  loader_ = std::make_unique<data::Loader>(
      sampler_of(data_.samples, options),
      [collate = data_.collate,
       allocate](std::span<const std::int64_t> indices, data::Batch& batch) {
        collate(indices, allocate, batch);
      },
      data::Loader::Options{.workers = options.workers});
}

data::TensorBatch BatchStream::next(std::optional<std::int64_t> length) {
  std::optional<data::Batch> batch = loader_->next();
  if (!batch) {
    throw DataError(
        {.what = "the data is at its end",
         .values =
             fmt::format("{} samples, {} consumed", data_.samples, consumed_),
         .remedy =
             "train for fewer samples, or with --dataloader-type cyclic"});
  }
  consumed_ = batch->consumed_samples;
  if (length) {
    data::truncate(*batch, static_cast<std::size_t>(*length));
  }
  return data::TensorBatch(*batch).to(device_);
}

} // namespace cairn::pretrain
