#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace cairn::data {

// Samplers decide which samples a rank reads next. They are plain values
// without threads. A sampler can start anywhere: its only state is the number
// of samples that all ranks together have consumed, and a checkpoint keeps only
// that.

/// This rank among the ranks that share the data.
struct DataParallel {
  std::int64_t rank = 0;
  std::int64_t size = 1;
};

struct IndexBatch {
  std::vector<std::int64_t> indices;
  /// Samples consumed by all ranks up to and including this batch: where to
  /// resume after it.
  std::int64_t consumed_samples = 0;
  bool operator==(const IndexBatch&) const = default;
};

/// A single pass in the dataset's order (--dataloader-type single): Megatron's
/// MegatronPretrainingSampler. Each rank takes a micro batch in turn, so the
/// order of samples does not depend on the number of ranks.
class SequentialSampler {
 public:
  struct Options {
    std::int64_t total_samples = 0;
    std::int64_t consumed_samples = 0;
    std::int64_t micro_batch_size = 1;
    DataParallel parallel{};
    /// Drops an incomplete last batch. When false the last batch is shorter,
    /// and on some ranks perhaps empty.
    bool drop_last = true;
  };

  /// Throws ConfigError when no samples are left to consume, and UsageError
  /// for a rank or a batch size that cannot be.
  explicit SequentialSampler(const Options& options);
  std::optional<IndexBatch> next();

 private:
  Options options_;
};

/// Endless passes, each in another order (--dataloader-type cyclic), after
/// Megatron's MegatronPretrainingRandomSampler. The orders are not Megatron's:
/// Megatron uses torch.randperm, Cairn IndexPermutation.
///
/// Passes follow each other without a gap, and consumed samples are counted in
/// that stream, so a run with another number of ranks or another batch size
/// resumes at the very next sample. With `sharding` (Megatron's
/// --data-sharding) each rank keeps to its own part of the data and passes end
/// with whole batches, as in Megatron; the order then depends on the number of
/// ranks.
class CyclicSampler {
 public:
  struct Options {
    std::int64_t total_samples = 0;
    std::int64_t consumed_samples = 0;
    std::int64_t micro_batch_size = 1;
    DataParallel parallel{};
    std::uint64_t seed = 1234;
    bool sharding = false;
    /// Numbers sample i of pass e as e * total_samples + i, for datasets whose
    /// samples change from pass to pass.
    bool number_passes = false;
  };

  explicit CyclicSampler(const Options& options);
  std::optional<IndexBatch> next();

 private:
  std::int64_t sample_at(std::int64_t position) const;
  std::int64_t sharded_sample_at(std::int64_t batch, std::int64_t row) const;

  Options options_;
};

/// torch's DistributedSampler with a batch size. Every rank gets the same
/// number of samples: some samples are used twice if necessary, or, with
/// drop_last, some are left out. Rank r takes places r, r + size, …. The order
/// of a shuffled epoch is Cairn's own.
class DistributedSampler {
 public:
  struct Options {
    std::int64_t total_samples = 0;
    std::int64_t batch_size = 1;
    DataParallel parallel{};
    bool shuffle = true;
    std::uint64_t seed = 0;
    bool drop_last = false;       ///< drop samples to make ranks equal
    bool drop_last_batch = false; ///< drop an incomplete last batch
  };

  explicit DistributedSampler(const Options& options);

  std::int64_t size() const noexcept { return size_; } ///< of this rank
  std::int64_t batches() const noexcept;               ///< in an epoch
  /// Begins an epoch, after `consumed_samples` of it (counted over all ranks).
  void set_epoch(std::int64_t epoch, std::int64_t consumed_samples = 0);
  /// The next batch, or nothing at the end of the epoch.
  std::optional<IndexBatch> next();
  bool at_end() const noexcept { return next_size() == 0; }

 private:
  std::int64_t next_size() const noexcept;

  Options options_;
  std::int64_t size_ = 0;
  std::int64_t epoch_ = 0;
  std::int64_t position_ = 0; ///< in this rank's samples
};

} // namespace cairn::data
