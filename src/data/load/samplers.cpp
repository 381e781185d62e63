#include <cairn/data/samplers.h>

#include "data/samples/index_permutation.h"

#include <cairn/base/error.h>

#include <fmt/format.h>

#include <algorithm>

namespace cairn::data {
namespace {

void check(
    std::int64_t total_samples,
    std::int64_t consumed_samples,
    std::int64_t batch_size,
    const DataParallel& parallel) {
  if (total_samples < 1) {
    throw DataError({.what = "the dataset has no sample to read"});
  }
  if (batch_size < 1 || parallel.size < 1 || parallel.rank < 0 ||
      parallel.rank >= parallel.size || consumed_samples < 0) {
    throw UsageError(
        {.what = "batches cannot be made this way",
         .values = fmt::format(
             "batch size {}, rank {} of {}, {} samples consumed",
             batch_size,
             parallel.rank,
             parallel.size,
             consumed_samples)});
  }
}

std::uint64_t order_at(
    std::uint64_t seed,
    std::int64_t epoch,
    std::int64_t size,
    std::int64_t position) {
  return IndexPermutation(
      seed,
      static_cast<std::uint64_t>(epoch),
      static_cast<std::uint64_t>(size))(static_cast<std::uint64_t>(position));
}

} // namespace

SequentialSampler::SequentialSampler(const Options& options)
    : options_(options) {
  check(
      options.total_samples,
      options.consumed_samples,
      options.micro_batch_size,
      options.parallel);
  if (options.consumed_samples >= options.total_samples) {
    throw ConfigError(
        {.what = "no samples are left to consume",
         .values = fmt::format(
             "{} of {} are consumed",
             options.consumed_samples,
             options.total_samples),
         .remedy = "ask for more samples, or start from the beginning"});
  }
}

std::optional<IndexBatch> SequentialSampler::next() {
  const std::int64_t step = options_.micro_batch_size * options_.parallel.size;
  const std::int64_t begin = options_.consumed_samples;
  const std::int64_t left = options_.total_samples - begin;
  if (left <= 0 || (left < step && options_.drop_last)) {
    return std::nullopt;
  }
  const std::int64_t offset =
      options_.parallel.rank * options_.micro_batch_size;
  IndexBatch batch;
  for (std::int64_t i = offset;
       i < std::min(offset + options_.micro_batch_size, left);
       ++i) {
    batch.indices.push_back(begin + i);
  }
  options_.consumed_samples += std::min(step, left);
  batch.consumed_samples = options_.consumed_samples;
  return batch;
}

CyclicSampler::CyclicSampler(const Options& options) : options_(options) {
  check(
      options.total_samples,
      options.consumed_samples,
      options.micro_batch_size,
      options.parallel);
  const std::int64_t step = options.micro_batch_size * options.parallel.size;
  if (options.sharding && options.total_samples < step) {
    throw DataError(
        {.what = "fewer samples than a batch of all ranks",
         .values = fmt::format("{}, {}", options.total_samples, step)});
  }
  if (options.sharding && options.consumed_samples % step != 0) {
    throw ConfigError(
        {.what = "with sharded data, runs go on after whole batches only",
         .values = fmt::format(
             "{} samples consumed, {} in a batch of all ranks",
             options.consumed_samples,
             step),
         .remedy = "keep batch size and number of ranks, or turn sharding "
                   "off"});
  }
}

std::int64_t CyclicSampler::sample_at(std::int64_t position) const {
  const std::int64_t pass = position / options_.total_samples;
  const auto sample = static_cast<std::int64_t>(order_at(
      options_.seed,
      pass,
      options_.total_samples,
      position % options_.total_samples));
  return options_.number_passes ? pass * options_.total_samples + sample
                                : sample;
}

std::int64_t CyclicSampler::sharded_sample_at(
    std::int64_t batch,
    std::int64_t row) const {
  const std::int64_t step = options_.micro_batch_size * options_.parallel.size;
  const std::int64_t batches = options_.total_samples / step;
  const std::int64_t shard = batches * options_.micro_batch_size;
  const std::int64_t pass = batch / batches;
  const std::int64_t place = batch % batches * options_.micro_batch_size + row;
  const std::int64_t sample = options_.parallel.rank * shard +
      static_cast<std::int64_t>(order_at(options_.seed, pass, shard, place));
  return options_.number_passes ? pass * options_.total_samples + sample
                                : sample;
}

std::optional<IndexBatch> CyclicSampler::next() {
  const std::int64_t step = options_.micro_batch_size * options_.parallel.size;
  const std::int64_t begin = options_.consumed_samples;
  IndexBatch batch;
  for (std::int64_t row = 0; row < options_.micro_batch_size; ++row) {
    batch.indices.push_back(
        options_.sharding
            ? sharded_sample_at(begin / step, row)
            : sample_at(
                  begin + options_.parallel.rank * options_.micro_batch_size +
                  row));
  }
  options_.consumed_samples += step;
  batch.consumed_samples = options_.consumed_samples;
  return batch;
}

DistributedSampler::DistributedSampler(const Options& options)
    : options_(options) {
  check(options.total_samples, 0, options.batch_size, options.parallel);
  size_ = options.drop_last
      ? options.total_samples / options.parallel.size
      : (options.total_samples + options.parallel.size - 1) /
          options.parallel.size;
}

std::int64_t DistributedSampler::batches() const noexcept {
  return options_.drop_last_batch
      ? size_ / options_.batch_size
      : (size_ + options_.batch_size - 1) / options_.batch_size;
}

void DistributedSampler::set_epoch(
    std::int64_t epoch,
    std::int64_t consumed_samples) {
  epoch_ = epoch;
  position_ = consumed_samples / options_.parallel.size;
}

std::int64_t DistributedSampler::next_size() const noexcept {
  const std::int64_t count = std::min(options_.batch_size, size_ - position_);
  return count < (options_.drop_last_batch ? options_.batch_size : 1) ? 0
                                                                      : count;
}

std::optional<IndexBatch> DistributedSampler::next() {
  const std::int64_t count = next_size();
  if (count == 0) {
    return std::nullopt;
  }
  IndexBatch batch;
  for (std::int64_t i = 0; i < count; ++i, ++position_) {
    // Places past the end wrap around to the first samples.
    const std::int64_t place =
        (position_ * options_.parallel.size + options_.parallel.rank) %
        options_.total_samples;
    batch.indices.push_back(
        options_.shuffle ? static_cast<std::int64_t>(order_at(
                               options_.seed,
                               epoch_,
                               options_.total_samples,
                               place))
                         : place);
  }
  batch.consumed_samples = position_ * options_.parallel.size;
  return batch;
}

} // namespace cairn::data
