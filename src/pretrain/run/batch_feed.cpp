#include "pretrain/run/batch_feed.h"

#include "config/internal/curriculum_length.h"
#include "models/internal/token_dropping.h"
#include "pretrain/internal/build_model.h"
#include "pretrain/internal/stages.h"

#include <cairn/nn/dropout.h>

#include <utility>

namespace cairn::pretrain {

models::ModelInput for_training(
    models::ModelInput input,
    const config::RandomLtdConfig& ltd,
    std::int64_t step,
    std::int64_t first_sample) {
  const std::int64_t batch = input.tokens.size(0);
  const std::int64_t sequence = input.tokens.size(1);
  input.samples =
      nn::sample_numbers(first_sample, batch, input.tokens.device());
  const std::int64_t kept = ltd.is_on()
      ? config::curriculum_length(ltd.schedule, step - 1)
      : sequence;
  if (kept < sequence) {
    input.kept =
        models::chosen_tokens({.seed = static_cast<std::uint64_t>(ltd.seed),
                               .layers = ltd.layers,
                               .first_sample = first_sample,
                               .batch = batch,
                               .sequence = sequence,
                               .kept = kept})
            .to(input.tokens.device());
  }
  return input;
}

BatchFeed::BatchFeed(const RunParts& parts, std::int64_t consumed_validation)
    : parts_(parts), consumed_validation_(consumed_validation) {}

BatchStream BatchFeed::stream(data::Split split, std::int64_t consumed) const {
  const auto& data = parts_.data[split];
  const config::Flags& flags = parts_.config.flags;
  const distributed::ProcessGroup& sharing =
      parts_.mesh.along(distributed::Axis::data);
  return BatchStream(
      *data,
      {.micro_batch = parts_.engine.settings().train_micro_batch_size_per_gpu,
       .parallel = {.rank = sharing.rank(), .size = sharing.size()},
       .consumed_samples = consumed,
       .order = flags.data.loader,
       .seed = static_cast<std::uint64_t>(flags.training.seed),
       .workers = static_cast<std::size_t>(flags.data.num_workers),
       .device = parts_.engine.device()});
}

BatchStream& BatchFeed::training_batches() {
  const std::int64_t consumed = parts_.engine.progress().global_samples;
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
  const std::int64_t consumed = batches.consumed_samples();
  const data::TensorBatch batch = [&] {
    const monitor::TimerScope loading(timers("data loader"));
    return batches.next(parts_.engine.curriculum_seqlen());
  }();
  return for_training(
      input_of(batch),
      parts_.config.deepspeed.random_ltd,
      parts_.iteration() + 1,
      consumed +
          parts_.mesh.coordinate(distributed::Axis::data) *
              parts_.engine.settings().train_micro_batch_size_per_gpu);
}

models::ModelInput BatchFeed::next(data::Split split) {
  models::ModelInput input = input_of(evaluation_batches(split).next());
  // Nothing is dropped, but a pipeline's stages take what they take in
  // training.
  input.samples =
      nn::sample_numbers(0, input.tokens.size(0), input.tokens.device());
  return input;
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
