#pragma once

#include "pretrain/run/batch_stream.h"
#include "pretrain/run/run_parts.h"

#include <cairn/models/transformer.h>
#include <cairn/pipeline/micro_batch.h>

#include <cstdint>
#include <functional>
#include <optional>

namespace cairn::pretrain {

/// A training batch with the numbers of its samples, which are counted over the
/// run, and with the tokens that dropping layers compute in this step, the
/// first being 1, if they drop any.
models::ModelInput for_training(
    models::ModelInput input,
    const config::RandomLtdConfig& ltd,
    std::int64_t step,
    std::int64_t first_sample);

/// The batches of a run, as its model takes them. Data are opened when the
/// first one is asked for, so stages that need none open none.
class BatchFeed {
 public:
  BatchFeed(const RunParts& parts, std::int64_t consumed_validation);

  /// Called before the batches of a step. They continue from where the engine
  /// stands, which a roll-back may have moved.
  void begin_step() { step_begins_ = true; }
  /// The next training batch, cut to the curriculum's length.
  models::ModelInput next_training();
  /// The next batch of an evaluation. Validation goes on where the last one
  /// ended.
  models::ModelInput next(data::Split split);

  /// The batches of `next` as a pipeline's stages take them.
  pipeline::NextMicroBatch micro_batches_of(
      std::function<models::ModelInput()> next) const;

  void count_validation(std::int64_t samples) {
    consumed_validation_ += samples;
  }
  std::int64_t consumed_validation() const { return consumed_validation_; }

 private:
  BatchStream stream(data::Split split, std::int64_t consumed) const;
  BatchStream& training_batches();
  BatchStream& evaluation_batches(data::Split split);
  models::ModelInput input_of(const data::TensorBatch& batch) const;

  const RunParts& parts_;
  bool step_begins_ = false;
  std::optional<BatchStream> training_;
  std::optional<BatchStream> validation_;
  std::optional<BatchStream> test_;
  std::int64_t consumed_validation_;
};

} // namespace cairn::pretrain
