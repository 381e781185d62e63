#pragma once

#include "pretrain/internal/pretrain.h"
#include "pretrain/plan/run_plan.h"

#include <cairn/config/config.h>
#include <cairn/model/description.h>
#include <cairn/models/load_model.h>
#include <cairn/optim/schedule.h>
#include <cairn/text/tokenizer.h>

#include <memory>
#include <optional>

namespace cairn::pretrain {

/// A run before its data are read and anything is allocated.
struct CheckedRun {
  RunPlan plan;
  std::shared_ptr<const optim::Schedule> schedule;
  std::shared_ptr<const text::Tokenizer> tokenizer;
  model::ModelDescription description;
  std::optional<models::StoredModel> foreign; ///< weights of another format
};

/// Throws ConfigError for a run that cannot be trained.
CheckedRun check_run(Kind kind, const config::Config& config);

} // namespace cairn::pretrain
