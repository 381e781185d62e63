#include <ATen/Functions.h>
#include <cairn/base/error.h>
#include <cairn/engine/training_data.h>

#include <utility>

namespace cairn::inline engine {

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

TrainingLoader::Position TrainingLoader::Place::position() const {
  if (next_) {
    return *next_;
  }
  return ended_ ? Position{.epoch = epoch_ + 1} : Position{epoch_, consumed_};
}

void TrainingLoader::Place::resume(Position position) {
  next_ = position;
}

std::int64_t TrainingLoader::epoch() const {
  return place_->next_ ? place_->next_->epoch : place_->epoch_;
}

void TrainingLoader::set_epoch(
    std::int64_t epoch,
    std::int64_t consumed_samples) {
  if (!sampler_) {
    throw UsageError(
        {.what = "there is no loader",
         .remedy = "pass .training_data to initialize()"});
  }
  place_->resume({.epoch = epoch, .consumed_samples = consumed_samples});
}

void TrainingLoader::start() {
  const Position start =
      place_->next_.value_or(Position{.epoch = place_->epoch_ + 1});
  *place_ = Place{};
  place_->epoch_ = start.epoch;
  place_->consumed_ = start.consumed_samples;
  if (sampler_) {
    sampler_->set_epoch(start.epoch, start.consumed_samples);
  }
}

TrainingLoader::Iterator TrainingLoader::begin() {
  start();
  return Iterator(*this);
}

std::optional<TrainingBatch> TrainingLoader::next() {
  if (place_->next_ || place_->epoch_ < 0) { // begin() was not called
    start();
  }
  const auto indices = sampler_ ? sampler_->next() : std::nullopt;
  if (!indices) {
    place_->ended_ = true;
    return std::nullopt;
  }
  place_->consumed_ = indices->consumed_samples;
  place_->ended_ = sampler_->at_end();
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

} // namespace cairn::engine
