#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace cairn::data {

// Samplers say which samples a rank reads next. They are plain values without
// threads, and start anywhere: at the number of samples that all ranks together
// have consumed, which is all that a checkpoint has to keep of them.

/// Which of the ranks that share the data this one is.
struct DataParallel {
  std::int64_t rank = 0;
  std::int64_t size = 1;
};

struct IndexBatch {
  std::vector<std::int64_t> indices;
  /// By all ranks, this batch included: where to go on after it.
  std::int64_t consumed_samples = 0;
  bool operator==(const IndexBatch&) const = default;
};

/// One pass, in the dataset's order (--dataloader-type single): Megatron's
/// MegatronPretrainingSampler. A micro batch of each rank in turn, so with
/// another number of ranks the order of samples stays.
class SequentialSampler {
 public:
  struct Options {
    std::int64_t total_samples = 0;
    std::int64_t consumed_samples = 0;
    std::int64_t micro_batch_size = 1;
    DataParallel parallel{};
    /// Otherwise the last batch is shorter, on some ranks perhaps empty.
    bool drop_last = true;
  };

  /// Throws ConfigError when nothing is left to consume.
  explicit SequentialSampler(const Options& options);
  std::optional<IndexBatch> next();

 private:
  Options options_;
};

/// Pass after pass without end, each in another order (--dataloader-type
/// cyclic), after Megatron's MegatronPretrainingRandomSampler. The orders are
/// not Megatron's: it asks torch.randperm, ours come from IndexPermutation.
///
/// Passes follow each other without a gap, and consumed samples count in
/// that stream, so another number of ranks or another batch size goes on at the
/// very sample. With `sharding` (Megatron's --data-sharding) each rank keeps to
/// a part of the data, and passes end with whole batches, as there; then the
/// order belongs to the number of ranks.
class CyclicSampler {
 public:
  struct Options {
    std::int64_t total_samples = 0;
    std::int64_t consumed_samples = 0;
    std::int64_t micro_batch_size = 1;
    DataParallel parallel{};
    std::uint64_t seed = 1234;
    bool sharding = false;
    /// Sample i of pass e is e * total_samples + i, for datasets that change
    /// their samples from pass to pass.
    bool number_passes = false;
  };

  explicit CyclicSampler(const Options& options);
  std::optional<IndexBatch> next();

 private:
  std::int64_t sample_at(std::int64_t position) const;
  std::int64_t sharded_sample_at(std::int64_t batch, std::int64_t row) const;

  Options options_;
};

/// torch's DistributedSampler with a batch size: every rank gets as many
/// samples as the others, some twice if need be (or, with drop_last, some not
/// at all), rank r taking places r, r + size, …; the order of a shuffled epoch
/// is ours.
class DistributedSampler {
 public:
  struct Options {
    std::int64_t total_samples = 0;
    std::int64_t batch_size = 1;
    DataParallel parallel{};
    bool shuffle = true;
    std::uint64_t seed = 0;
    bool drop_last = false;       ///< samples, to be equal on all ranks
    bool drop_last_batch = false; ///< when it is not full
  };

  explicit DistributedSampler(const Options& options);

  std::int64_t size() const noexcept { return size_; } ///< of this rank
  std::int64_t batches() const noexcept;               ///< of an epoch
  /// Begins an epoch, after so many samples of it (of all ranks).
  void set_epoch(std::int64_t epoch, std::int64_t consumed_samples = 0);
  /// None at the end of the epoch.
  std::optional<IndexBatch> next();
  bool at_end() const noexcept { return next_size() == 0; }

 private:
  std::int64_t next_size() const noexcept;

  Options options_;
  std::int64_t size_ = 0;
  std::int64_t epoch_ = 0;
  std::int64_t position_ = 0; ///< among this rank's samples
};

} // namespace cairn::data
