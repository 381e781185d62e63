#pragma once

#include <ATen/Functions.h>
#include <ATen/core/Tensor.h>
#include <cairn/data/batch.h>
#include <cairn/data/collate.h>
#include <cairn/data/tensor_batch.h>

#include <cstddef>
#include <cstdint>
#include <functional>
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

} // namespace cairn::engine
