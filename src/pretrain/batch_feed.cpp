#include "pretrain/batch_feed.h"

#include "pretrain/build_model.h"
#include "pretrain/stages.h"

#include <utility>

namespace cairn::pretrain {

BatchFeed::BatchFeed(const RunParts& parts, std::int64_t consumed_validation)
    : parts_(parts), consumed_validation_(consumed_validation) {}

BatchStream BatchFeed::stream(data::Split split, std::int64_t consumed) const {
  const auto& data = parts_.data[split];
  const config::Flags& flags = parts_.config.flags;
  const distributed::ProcessGroup& sharing =
      parts_.mesh.along(distributed::Axis::data);
  return BatchStream(
      *data,
      {.micro_batch = parts_.engine.train_micro_batch_size_per_gpu(),
       .parallel = {.rank = sharing.rank(), .size = sharing.size()},
       .consumed_samples = consumed,
       .order = flags.data.loader,
       .seed = static_cast<std::uint64_t>(flags.training.seed),
       .workers = static_cast<std::size_t>(flags.data.num_workers),
       .device = parts_.engine.device()});
}

BatchStream& BatchFeed::training_batches() {
  const std::int64_t consumed = parts_.engine.global_samples();
  if (!training_ ||
      (training_->consumed_samples() != consumed && step_begins_)) {
    training_.emplace(stream(data::Split::train, consumed));
  }
  step_begins_ = false;
  return *training_;
}

BatchStream& BatchFeed::evaluation_batches(data::Split split) {
  if (split == data::Split::test) {
    if (!test_) {
      test_.emplace(stream(split, 0));
    }
    return *test_;
  }
  if (!validation_) {
    validation_.emplace(stream(split, consumed_validation_));
  }
  return *validation_;
}

models::ModelInput BatchFeed::input_of(const data::TensorBatch& batch) const {
  return models::own_sequence(
      models::pretraining_input(parts_.model, batch, parts_.pretraining),
      context_of(parts_.config.flags.distributed, parts_.mesh));
}

models::ModelInput BatchFeed::next_training() {
  monitor::Timers& timers = *parts_.timers;
  const monitor::TimerScope generating(timers("batch generator"));
  BatchStream& batches = training_batches();
  const data::TensorBatch batch = [&] {
    const monitor::TimerScope loading(timers("data loader"));
    return batches.next(parts_.engine.curriculum_seqlen());
  }();
  return input_of(batch);
}

models::ModelInput BatchFeed::next(data::Split split) {
  return input_of(evaluation_batches(split).next());
}

pipeline::NextMicroBatch BatchFeed::micro_batches_of(
    std::function<models::ModelInput()> next) const {
  return [this,
          next = std::move(next),
          inputs = pretraining_inputs(parts_.model, parts_.config.flags)] {
    return std::optional(micro_batch_of(parts_.model, inputs, next()));
  };
}

} // namespace cairn::pretrain
