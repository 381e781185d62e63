#pragma once

#include <cairn/base/log.h>
#include <cairn/config/config.h>
#include <cairn/distributed/init_distributed.h>
#include <cairn/distributed/process_mesh.h>
#include <cairn/engine/engine.h>
#include <cairn/engine/model.h>
#include <cairn/engine/optimizer.h>
#include <cairn/engine/training_data.h>
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

/// The arguments of initialize(). Only the model is required.
struct InitializeOptions {
  /// The program's arguments, whose --deepspeed_config FILE counts unless
  /// `config` is given.
  std::optional<config::Args> args{};
  Model model{};
  /// Values of the model's parameters that were built without memory
  /// (models::ModelOptions::later). They are made bucket by bucket, and of a
  /// bucket that ranks share only the part that this rank keeps.
  std::shared_ptr<const nn::LaterValues> later_values{};
  /// An optimizer of torch::optim, in place of the configuration's. Its own
  /// parameter groups count, and its states stay in memory.
  std::shared_ptr<torch::optim::Optimizer> optimizer{};
  /// Empty: all parameters that require gradients, as one group.
  std::vector<ParameterGroup> model_parameters{};
  TrainingData training_data{};
  /// A schedule in place of the configuration's `scheduler`.
  std::shared_ptr<const optim::Schedule> lr_scheduler{};
  /// The schedule's argument: samples so far if true, else updates.
  bool lr_scheduler_counts_samples = false;
  /// The ranks that share the parameters; unset: all ranks.
  std::optional<distributed::ProcessMesh> mesh{};
  /// The process groups of the program itself, in place of `mesh`: what
  /// DeepSpeed's `mpu` is for.
  std::optional<distributed::ParallelGroups> parallel_groups{};
  /// The program's promise that after the first update no pass uses a parameter
  /// more often than passes before did, as PyTorch's `static_graph` has it: the
  /// host need not wait in every update to hear whether a rank has gradients
  /// that came after the rest. Nested checkpoints whose depth changes break it,
  /// as do layers that the first update leaves out and later ones do not:
  /// UsageError on the rank that has such a gradient; the others end with the
  /// job, or by their next timeout.
  bool same_use_in_all_passes = false;
  CollateExamples collate{};
  /// The path of a DeepSpeed JSON file, or its text (which starts with a
  /// brace).
  std::optional<std::string> config{};
  /// The whole configuration, already read; in place of `config`.
  std::optional<config::Config> settings{};
  /// JSON keys and sections that the program itself acts on: no warning that
  /// the engine does not.
  std::vector<std::string> keys_acted_on{};
  /// Timers for the engine's passes (forward, backward, allreduce, optimizer),
  /// which the program may share. Unset: the engine has its own.
  std::shared_ptr<monitor::Timers> timers{};
  /// A description of the model, kept in checkpoints. `cairn convert` needs it
  /// for other formats than DeepSpeed's.
  std::optional<model::ModelDescription> description{};
  /// The job, if it is joined already.
  std::optional<distributed::World> world{};
  std::optional<Logger> logger{};
};

struct Initialized {
  Engine engine;
  Optimizer optimizer;
  TrainingLoader loader;
  LearningRate schedule;
};

/// Joins the job, and makes a model trainable as the configuration says.
///
///   auto [engine, optimizer, loader, schedule] =
///       cairn::initialize({.model = net, .config = "ds.json"});
///
/// Throws ConfigError before anything is allocated where it can.
Initialized initialize(InitializeOptions options);

} // namespace cairn::engine
