#pragma once

#include "cli/program/command.h"
#include "plan/internal/search.h"
#include "plan/internal/what_if.h"

#include <cairn/config/config.h>
#include <cairn/plan/estimate.h>

#include <optional>
#include <string>
#include <vector>

namespace cairn::cli {

/// The command line of `cairn plan` or `cairn memory`: its own flags, and those
/// of `cairn pretrain`.
struct PlanRequest {
  model::ModelKind kind = model::ModelKind::gpt;
  plan::Cluster cluster;
  std::int64_t gpus = 1;
  plan::Training training;
  /// The one layout that the flags give; unset: search for one.
  std::optional<plan::RunLayout> layout;
  plan::SearchOptions search;
  std::optional<double> tokens; ///< of the whole run
  bool tokens_by_size = false;  ///< nobody said them: 20 a parameter
  bool json = false;
  std::optional<std::string> page;   ///< --html
  std::optional<std::string> trace;  ///< --simulate
  std::optional<std::string> curves; ///< --scaling
  std::int64_t most_gpus = 100'000;  ///< of the curves
  bool stages = false;               ///< --stages
  plan::Reliability reliability;
  bool asks_goodput = false; ///< failures or checkpoints are to be shown
  plan::EstimateOptions options;
  std::optional<std::string> folder;    ///< --write
  std::vector<std::string> model_flags; ///< what else `cairn pretrain` gets
  bool recomputes_parts = false;        ///< these flags say so
  std::string deepspeed = "{}";         ///< the JSON that is given
};

/// Reads the arguments. Unset when help was asked for and printed. Throws
/// ConfigError.
std::optional<PlanRequest> plan_request(
    const std::string& command,
    const Arguments& arguments);

/// The flags of `cairn pretrain` for a layout, without the place of its states.
std::vector<std::string> flags_of(const plan::RunLayout& layout);

/// The flags of `cairn pretrain` for a layout, and those that put the
/// optimizer's states on the host. States on a disk and parameters on the host
/// have keys of the DeepSpeed JSON alone.
std::vector<std::string> layout_flags(const plan::RunLayout& layout);

/// All flags of `cairn pretrain` for a layout of the request, without the
/// DeepSpeed JSON. A layout that is given keeps its flags about recomputation.
std::vector<std::string> pretrain_flags(
    const PlanRequest& request,
    const plan::RunLayout& layout);

} // namespace cairn::cli
