#pragma once

#include "pretrain/internal/pretrain.h"
#include "pretrain/internal/pretraining_data.h"
#include "pretrain/model/foreign_checkpoint.h"
#include "pretrain/plan/run_estimate.h"
#include "pretrain/plan/run_plan.h"

#include <cairn/base/log.h>
#include <cairn/config/config.h>
#include <cairn/distributed/init_distributed.h>
#include <cairn/distributed/process_mesh.h>
#include <cairn/engine/engine.h>
#include <cairn/model/description.h>
#include <cairn/models/pretraining.h>
#include <cairn/monitor/run_values.h>
#include <cairn/monitor/timers.h>

#include <cstdint>
#include <memory>
#include <optional>

namespace cairn::pretrain {

/// The parts of a run, once all of it is checked and built.
struct RunParts {
  Kind kind;
  config::Config config;
  RunPlan plan;
  model::ModelDescription model;
  PretrainingData data;
  Engine engine;
  distributed::World world;
  distributed::ProcessMesh mesh;
  models::PretrainingOptions pretraining;
  /// The checkpoint of another program that --load names. The model has its
  /// weights already if the run begins anew from them.
  std::optional<ForeignCheckpoint> foreign;
  std::shared_ptr<monitor::Timers> timers; ///< the engine's
  monitor::NamedTexts versions;            ///< for the log
  RunPrediction prediction;                ///< the planner's
  Logger logger;

  std::int64_t iteration() const { return engine.progress().global_steps; }
  std::int64_t tokens() const {
    return plan.tokens.at(engine.progress().global_samples);
  }
};

} // namespace cairn::pretrain
