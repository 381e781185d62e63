#pragma once

#include "evaluate/finetune/epoch.h"
#include "evaluate/finetune/finetune_plan.h"
#include "evaluate/finetune/task_data.h"
#include "evaluate/finetune/task_model.h"
#include "evaluate/finetune/training_report.h"
#include "evaluate/internal/finetune.h"

#include <cairn/base/log.h>
#include <cairn/config/config.h>
#include <cairn/distributed/init_distributed.h>
#include <cairn/distributed/process_mesh.h>
#include <cairn/engine/engine.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cairn::evaluate {

/// The parts of a fine-tuning, once all of it is checked and built.
struct FineTunerParts {
  const FinetunePlan& plan;
  config::Config config;
  std::optional<TaskData> training; ///< unset: evaluation only
  TaskData validation;
  bool keep_last_batch = false;
  Engine engine;
  std::shared_ptr<KeptOutputs> kept;
  distributed::World world;
  distributed::ProcessMesh mesh;
  monitor::NamedTexts versions;
  Logger logger; ///< speaks on rank 0 alone
};

/// The loop over epochs, with an evaluation after each.
class FineTuner {
 public:
  explicit FineTuner(FineTunerParts parts);

  FinetuneReport run();

 private:
  /// Updates of an epoch, and of the whole run.
  std::int64_t updates() const { return epoch_ ? epoch_->updates() : 0; }
  std::int64_t iterations() const { return updates() * parts_.plan.epochs; }
  std::int64_t iteration() const {
    return parts_.engine.progress().global_steps;
  }
  bool is_due(const std::optional<std::int64_t>& interval) const;

  void restore();
  /// False when --exit-interval ended the run.
  bool train_epoch(std::int64_t epoch);
  void step(
      std::int64_t epoch,
      std::int64_t update,
      const std::vector<std::int64_t>& order);
  void save();
  /// The loss of the next --eval-iters batches of all labelled validation data.
  void validate();
  void evaluate(std::int64_t epoch);
  FileResult evaluate_file(const TaskData::File& file, std::int64_t epoch);
  /// The model's outputs for the samples of a file, on every rank.
  at::Tensor outputs_of(const TaskData::File& file);

  /// The samples at these places, of which only those below `count` exist.
  /// `first_number`: the number in the run of the sample at place 0.
  pipeline::MicroBatch micro_batch(
      const TaskData& data,
      const std::vector<std::int64_t>& samples,
      double weight,
      std::int64_t first_number,
      const std::vector<std::int64_t>& places) const;
  EpochPlan plan_of(std::int64_t samples, std::int64_t accumulation) const;

  FineTunerParts parts_;
  std::optional<EpochPlan> epoch_;
  std::optional<TrainingReport> log_;
  std::int64_t saved_at_ = -1;
  std::vector<std::int64_t> labelled_; ///< samples that validate() takes
  std::size_t validated_ = 0;          ///< those that it has taken
  FinetuneReport report_;
};

} // namespace cairn::evaluate
