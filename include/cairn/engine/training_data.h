#pragma once

#include <ATen/Functions.h>
#include <ATen/core/Tensor.h>
#include <cairn/data/batch.h>
#include <cairn/data/collate.h>
#include <cairn/data/samplers.h>
#include <cairn/data/tensor_batch.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cairn::inline engine {

/// One sample of a dataset of tensors.
struct Example {
  at::Tensor input;
  at::Tensor target;
};

/// Samples together, the first dimension being the sample. Datasets of examples
/// fill input and target; those of cairn::data have named fields.
struct TrainingBatch {
  at::Tensor input;
  at::Tensor target;
  data::TensorBatch fields;
  /// Samples that all ranks have consumed, this batch included: the place to go
  /// on after it.
  std::int64_t consumed_samples = 0;

  const at::Tensor& operator[](std::string_view name) const {
    return fields[name];
  }
};

/// Makes a batch of samples; unset: stacks them.
using CollateExamples = std::function<TrainingBatch(std::vector<Example>)>;
TrainingBatch stack(const std::vector<Example>& examples);

/// A dataset, whatever its type: with get(index), which returns a libtorch
/// Example, a cairn::Example or a pair of tensors, and size(); or one of
/// cairn::data's with read(index, sample).
class TrainingData {
 public:
  TrainingData() = default;

  template <typename Dataset>
  requires requires(Dataset& data, std::size_t i) {
    data.get(i);
    data.size();
  }
  TrainingData(Dataset dataset)
      : size_(size_of(dataset)),
        batch_([data = std::make_shared<Dataset>(std::move(dataset))](
                   std::span<const std::int64_t> indices,
                   const CollateExamples& collate) {
          std::vector<Example> examples;
          for (const std::int64_t index : indices) {
            examples.push_back(example_of(data->get(index)));
          }
          return collate ? collate(std::move(examples)) : stack(examples);
        }) {}

  template <typename Dataset>
  requires requires(
      const Dataset& data,
      typename Dataset::Sample& sample,
      std::size_t i) {
    data.read(i, sample);
    data.size();
  }
  TrainingData(std::shared_ptr<const Dataset> dataset)
      : size_(static_cast<std::int64_t>(dataset->size())),
        batch_([data = std::move(dataset)](
                   std::span<const std::int64_t> indices,
                   const CollateExamples&) {
          data::Batch batch;
          data::collate(*data, indices, data::allocate_host, batch);
          return TrainingBatch{.fields = data::TensorBatch(batch)};
        }) {}

  explicit operator bool() const { return static_cast<bool>(batch_); }
  std::int64_t size() const { return size_; }
  TrainingBatch batch(
      std::span<const std::int64_t> indices,
      const CollateExamples& collate) const {
    return batch_(indices, collate);
  }

 private:
  template <typename Dataset>
  static std::int64_t size_of(const Dataset& dataset) {
    const auto size = dataset.size();
    if constexpr (requires { size.value(); }) {
      return static_cast<std::int64_t>(size.value());
    } else {
      return static_cast<std::int64_t>(size);
    }
  }
  template <typename Item>
  static Example example_of(Item item) {
    if constexpr (requires { item.data; }) {
      return {std::move(item.data), std::move(item.target)};
    } else if constexpr (requires { item.first; }) {
      return {std::move(item.first), std::move(item.second)};
    } else {
      return item;
    }
  }

  std::int64_t size_ = 0;
  std::function<
      TrainingBatch(std::span<const std::int64_t>, const CollateExamples&)>
      batch_;
};

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
