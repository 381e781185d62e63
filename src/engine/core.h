#pragma once

#include "engine/build/call_times.h"
#include "engine/build/job.h"
#include "engine/build/offered_options.h"
#include "engine/build/trained_model.h"
#include "engine/memory/memory_log.h"
#include "engine/save/checkpoints.h"
#include "engine/save/slice_owner.h"
#include "engine/save/training_state.h"
#include "engine/step/progress.h"
#include "engine/step/step_log.h"
#include "engine/step/step_monitor.h"
#include "engine/step/step_runner.h"
#include "engine/step/updater.h"

#include <cairn/base/log.h>
#include <cairn/config/config.h>
#include <cairn/distributed/init_distributed.h>
#include <cairn/distributed/process_mesh.h>
#include <cairn/engine/model.h>
#include <cairn/engine/optimizer.h>
#include <cairn/model/description.h>
#include <cairn/monitor/timers.h>
#include <cairn/nn/later_values.h>
#include <cairn/optim/schedule.h>
#include <torch/optim/optimizer.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cairn::inline engine {

struct CoreOptions {
  config::Config config;
  Model model;
  std::shared_ptr<const nn::LaterValues> later_values;
  std::vector<ParameterGroup> groups; ///< empty: all parameters, one group
  std::shared_ptr<torch::optim::Optimizer> client_optimizer;
  std::shared_ptr<const optim::Schedule> client_schedule;
  RateSchedule::Counts schedule_counts = RateSchedule::Counts::updates;
  distributed::World world;
  /// Axes of the world; unset where every rank has the whole model.
  std::optional<distributed::ProcessMesh> mesh;
  bool same_use_in_all_passes = false;
  std::vector<std::string> keys_acted_on;  ///< by the program
  std::shared_ptr<monitor::Timers> timers; ///< unset: its own
  std::optional<model::ModelDescription> description;
  Logger logger;
};

/// The parts of an engine, which Engine's functions call. A part knows only
/// those above it.
struct Core {
  explicit Core(CoreOptions options);
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  Job job;
  MemoryLog memory;
  CallTimes calls;
  OfferedOptions offered;
  StepLog log;
  StepMonitor monitor;
  TrainedModel trained;
  Progress progress;
  SliceOwner owner;
  TrainingState state;
  Checkpoints checkpoints;
  Updater updater;
  StepRunner steps;
};

} // namespace cairn::engine
