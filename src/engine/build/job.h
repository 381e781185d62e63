#pragma once

#include "distributed/internal/buffer_pool.h"
#include "engine/build/precision.h"
#include "zero/internal/policy.h"
#include "zero/internal/rank_groups.h"

#include <cairn/base/log.h>
#include <cairn/config/config.h>
#include <cairn/distributed/init_distributed.h>
#include <cairn/distributed/process_mesh.h>

#include <c10/core/Device.h>

#include <memory>
#include <optional>

namespace cairn::inline engine {

/// The job that an engine trains in: its configuration, its ranks, the device,
/// and values that follow from them. Every part of an engine reads it.
struct Job {
  /// All ranks make it together. Without a mesh every rank of the world has all
  /// of the model.
  Job(config::Config configuration,
      distributed::World joined,
      std::optional<distributed::ProcessMesh> shape,
      const Logger& log);

  const config::DeepSpeedConfig& deepspeed() const { return config.deepspeed; }
  const config::BatchConfig& batch() const { return *config.deepspeed.batch; }
  /// True on the one rank that logs for all.
  bool speaks() const { return world.rank() == 0; }
  /// The rank of this process among those that hold one copy of the model.
  int model_rank() const { return mesh ? mesh->model_parallel().rank() : 0; }

  config::Config config;
  distributed::World world;
  std::optional<distributed::ProcessMesh> mesh;
  distributed::ProcessGroup group; ///< ranks that train the same parameters
  Logger logger;
  at::Device device;
  Precision precision;
  zero::Policy policy;
  zero::RankGroups groups; ///< groups of ranks that share state
  /// The same, for gathers of parameters. Groups of their own where gathers run
  /// beside other calls.
  zero::RankGroups gather_groups;
  /// Memory of the tensors that these groups send; null unless the flags ask
  /// for it.
  std::shared_ptr<distributed::BufferPool> buffers;
};

} // namespace cairn::engine
