#pragma once

#include "cli/program/command.h"
#include "cli/tune/model_size.h"
#include "cli/tune/tuning_scope.h"

#include <cairn/config/config.h>
#include <cairn/model/description.h>
#include <cairn/plan/cluster.h>
#include <cairn/plan/estimate.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace cairn::cli {

/// A setting that experiments may change.
enum class Tuned {
  micro_batch,
  zero_stage,
  tensor,
  pipeline,
  context,
  expert,
  recompute,
  bucket,
  overlap
};

/// What is to be tuned: a training, and how to look for its best settings.
struct TuneRequest {
  model::ModelKind kind = model::ModelKind::gpt;
  Arguments launch; ///< words of `cairn launch` that stand before the program
  Arguments flags;  ///< of `cairn pretrain`, behind the model's name
  /// Another program and its arguments, which name DeepSpeed's JSON; empty:
  /// `cairn pretrain` is tuned.
  Arguments program;
  std::string program_config; ///< the argument that names the JSON
  std::int64_t ranks = 1;
  std::string deepspeed = "{}"; ///< the content of the file, as plain JSON
  bool changed_json = false;    ///< it has values that the file has not
  config::Config config;        ///< the training as it is given
  config::AutotuningConfig options;

  std::set<Tuned> varied;
  TuningScope scope; ///< lists of values that the JSON gives
  /// Smaller micro batches are tried only if no other runs.
  std::int64_t least_micro = 1;
  std::int64_t model_ranks = 1;      ///< of a program, that share one model
  bool fixed_batch = false;          ///< the samples of an update are given
  std::optional<std::size_t> trials; ///< experiments at most, over all stages
  double seconds = 600;              ///< of an experiment, at most
  std::filesystem::path results;
  std::optional<std::filesystem::path> experiments; ///< kept only if asked for
  bool json = false;
  bool train = false; ///< train with the best settings afterwards

  /// The planner's view of it; unset where it has none.
  std::optional<plan::Training> training;
  std::optional<plan::Cluster> cluster;
  std::string unplanned;          ///< why it has none
  std::optional<ModelSize> size;  ///< of a program's model, if it is said
  std::vector<std::string> notes; ///< for the user, before the search
};

/// Reads the arguments of `cairn tune`, or those of `cairn launch
/// --autotuning` (tune_by_launcher.h). Unset when help was asked for and
/// printed. Throws ConfigError.
std::optional<TuneRequest> tune_request(const Arguments& arguments);

} // namespace cairn::cli
