#pragma once

#include "pretrain/internal/pretrain.h"
#include "pretrain/model/foreign_checkpoint.h"
#include "pretrain/plan/run_plan.h"

#include <cairn/config/config.h>
#include <cairn/model/description.h>
#include <cairn/optim/schedule.h>
#include <cairn/text/tokenizer.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cairn::pretrain {

/// A run before its data are read and anything is allocated.
struct CheckedRun {
  RunPlan plan;
  std::shared_ptr<const optim::Schedule> schedule;
  std::shared_ptr<const text::Tokenizer> tokenizer;
  model::ModelDescription description;
  /// The checkpoint of another program to start from.
  std::optional<ForeignCheckpoint> foreign;
  /// Lines for the log, beside the configuration's warnings.
  std::vector<std::string> notes;
};

/// Throws ConfigError for a run that cannot be trained.
CheckedRun check_run(Kind kind, const config::Config& config);

} // namespace cairn::pretrain
