#pragma once

#include <cairn/data/samplers.h>
#include <cairn/engine/training_data.h>

#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>

namespace cairn::inline engine {

/// The loader that initialize() makes: a micro batch of this rank's own samples
/// at a time, on the engine's device.
///
///   for (auto& batch : loader) …      // one epoch, each in another order
class TrainingLoader {
 public:
  struct Options {
    data::DistributedSampler::Options sampler;
    CollateExamples collate;
    at::Device device = at::kCPU;
  };

  /// The start of the next loop: an epoch, and the samples of it that all ranks
  /// have consumed.
  struct Position {
    std::int64_t epoch = 0;
    std::int64_t consumed_samples = 0;
  };

  TrainingLoader() = default; ///< nothing to load
  TrainingLoader(TrainingData data, Options options);

  /// Batches of an epoch.
  std::int64_t size() const { return sampler_ ? sampler_->batches() : 0; }
  std::int64_t epoch() const;
  /// The next loop goes through this epoch, after so many samples of it (of all
  /// ranks).
  void set_epoch(std::int64_t epoch, std::int64_t consumed_samples = 0);

  /// The next batch; none at the end of the epoch.
  std::optional<TrainingBatch> next();

  class Iterator {
   public:
    using value_type = TrainingBatch;
    using difference_type = std::ptrdiff_t;
    Iterator() = default;
    explicit Iterator(TrainingLoader& loader) : loader_(&loader) { ++*this; }
    TrainingBatch& operator*() { return *batch_; }
    TrainingBatch* operator->() { return &*batch_; }
    Iterator& operator++() {
      batch_ = loader_->next();
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return !batch_; }

   private:
    TrainingLoader* loader_ = nullptr;
    std::optional<TrainingBatch> batch_;
  };
  /// Begins an epoch: the one that was set, else the next.
  Iterator begin();
  std::default_sentinel_t end() const { return {}; }

  /// The loader's place, for checkpoints: they save it, and set it when they
  /// are loaded.
  class Place {
   public:
    Position position() const;
    void resume(Position position);

   private:
    friend class TrainingLoader;
    std::int64_t epoch_ = -1;
    std::int64_t consumed_ = 0;
    bool ended_ = true;
    std::optional<Position> next_; ///< set by somebody
  };
  std::shared_ptr<Place> place() const { return place_; }

 private:
  void start();

  TrainingData data_;
  Options options_;
  std::optional<data::DistributedSampler> sampler_;
  std::shared_ptr<Place> place_ = std::make_shared<Place>();
};

} // namespace cairn::engine
