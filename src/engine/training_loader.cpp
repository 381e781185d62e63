#include <ATen/Functions.h>
#include <cairn/base/error.h>
#include <cairn/engine/training_loader.h>

#include <utility>

namespace cairn {

TrainingBatch stack(const std::vector<Example>& examples) {
  std::vector<at::Tensor> inputs;
  std::vector<at::Tensor> targets;
  for (const Example& example : examples) {
    inputs.push_back(example.input);
    if (example.target.defined()) {
      targets.push_back(example.target);
    }
  }
  TrainingBatch batch;
  if (!inputs.empty()) {
    batch.input = at::stack(inputs);
  }
  if (!targets.empty()) {
    batch.target = at::stack(targets);
  }
  return batch;
}

TrainingLoader::TrainingLoader(TrainingData data, Options options)
    : data_(std::move(data)), options_(std::move(options)) {
  options_.sampler.total_samples = data_.size();
  if (data_.size() == 0) {
    throw DataError({.what = "training_data has no samples"});
  }
  sampler_.emplace(options_.sampler);
}

void TrainingLoader::set_epoch(
    std::int64_t epoch,
    std::int64_t consumed_samples) {
  if (!sampler_) {
    throw ConfigError(
        {.what = "there is no loader",
         .remedy = "pass .training_data to initialize()"});
  }
  epoch_ = epoch;
  epoch_set_ = true;
  sampler_->set_epoch(epoch, consumed_samples);
}

TrainingLoader::Iterator TrainingLoader::begin() {
  if (!std::exchange(epoch_set_, false)) {
    set_epoch(epoch_ + 1);
    epoch_set_ = false;
  }
  return Iterator(*this);
}

std::optional<TrainingBatch> TrainingLoader::next() {
  const auto indices = sampler_ ? sampler_->next() : std::nullopt;
  if (!indices) {
    return std::nullopt;
  }
  TrainingBatch batch = data_.batch(indices->indices, options_.collate);
  batch.consumed_samples = indices->consumed_samples;
  const auto moved = [&](at::Tensor& tensor) {
    if (tensor.defined()) {
      tensor = tensor.to(options_.device);
    }
  };
  moved(batch.input);
  moved(batch.target);
  for (auto& [name, tensor] : batch.fields.tensors) {
    moved(tensor);
  }
  return batch;
}

} // namespace cairn
