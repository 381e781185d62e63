#pragma once

#include "pretrain/batch_stream.h"
#include "pretrain/loss_meter.h"
#include "pretrain/run_plan.h"
#include "pretrain/step_times.h"
#include "pretrain/stop_conditions.h"

#include <cairn/checkpoint/checkpoint_format.h>
#include <cairn/checkpoint/model_description.h>
#include <cairn/distributed/process_mesh.h>
#include <cairn/engine/engine.h>
#include <cairn/models/pretraining.h>
#include <cairn/monitor/profiler_traces.h>
#include <cairn/monitor/training_log.h>
#include <cairn/pipeline/micro_batch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cairn::pretrain {

/// The loop: steps, evaluations, saves, and what is said of them.
class Trainer {
 public:
  struct Parts {
    Kind kind;
    config::Config config;
    RunPlan plan;
    checkpoints::ModelDescription model;
    PretrainingData data;
    Engine engine;
    distributed::World world;
    distributed::ProcessMesh mesh;
    models::PretrainingOptions pretraining;
    /// Whose weights --load has given the model already.
    std::optional<checkpoints::CheckpointFormat> weights;
    std::shared_ptr<monitor::Timers> timers; ///< the engine's
    monitor::NamedTexts versions;            ///< for the log
    Logger logger;
  };
  explicit Trainer(Parts parts);

  Outcome run();

 private:
  void restore();
  void open_log();
  std::optional<Ended> train();
  void step();
  void report();
  void log_memory();
  void evaluate(data::Split split, const std::string& at);
  void save();
  BatchStream stream(data::Split split, std::int64_t consumed) const;
  bool is_due(const std::optional<std::int64_t>& interval) const;
  bool shows(std::int64_t iteration) const;
  std::int64_t iteration() const { return parts_.engine.global_steps(); }
  std::int64_t tokens() const;
  std::optional<double> peak_flops() const;
  double flops_per_sample() const;
  std::vector<monitor::NamedValue> mean_losses(LossMeter& meter) const;
  models::ModelInput input_of(const data::TensorBatch& batch) const;
  models::ModelInput next_training_input();
  pipeline::NextMicroBatch micro_batches_of(
      const std::function<models::ModelInput()>& next) const;
  BatchStream& training_batches();
  BatchStream& evaluation_batches(data::Split split);

  Parts parts_;
  StopConditions stop_;
  bool pipelined_;
  bool step_begins_ = false;
  std::optional<BatchStream> training_;
  std::optional<BatchStream> validation_;
  std::optional<BatchStream> test_;
  std::int64_t consumed_validation_ = 0;
  LossMeter losses_;
  std::optional<monitor::TrainingLog> log_; ///< on the rank that speaks
  StepTimes times_;
  std::optional<monitor::ProfilerTraces> traces_;
  std::int64_t write_every_ = 1;
  std::int64_t report_every_ = 1;
  std::int64_t reported_ = 0; ///< the last iteration that was
  std::int64_t times_reported_ = 0;
  std::int64_t skipped_before_ = 0;
  std::int64_t saved_at_ = -1;
  bool memory_said_ = false; ///< once there is something to say of
};

} // namespace cairn::pretrain
