#pragma once

#include "launch/internal/node_plan.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::launch {

/// A volume claim and the path where the ranks see it.
struct VolumeMount {
  std::string claim;
  std::string path;
};

/// A job for a cluster's scheduler: the common part of the Slurm script and the
/// Kubernetes manifest.
struct ClusterJob {
  std::string name = "cairn";
  int nodes = 1;
  int gpus_per_node = 1;
  std::optional<int> cpus_per_node;       ///< empty: by the number of GPUs
  std::optional<int> memory_gib_per_node; ///< empty: by the number of GPUs
  std::string image;                      ///< container image
  std::string working_dir; ///< empty: the image's, or the submitter's
  Variables environment;
  std::optional<int> master_port;
  int max_restarts = 0;
  std::vector<std::string> launch_flags; ///< more flags for `cairn launch`
  std::vector<std::string> command;      ///< the command of every rank
};

/// The amount that a node should request, and the most that it may use.
struct ResourceRange {
  int least = 0;
  int most = 0;
};

/// CPUs of a node: 2 to 4 per GPU, as training with a data loader beside each
/// rank needs.
ResourceRange default_cpus(int gpus);

/// Memory of a node: 8 to 16 GiB for a single GPU; 32 to 64 GiB for each of
/// several GPUs, whose models are larger and whose optimizer states may be in
/// host memory.
ResourceRange default_memory_gib(int gpus);

/// The resources of the job: the user's figures, or the defaults.
ResourceRange cpus_of(const ClusterJob& job);
ResourceRange memory_gib_of(const ClusterJob& job);

/// Reads `16Gi`, `16GiB`, `16G` or `16` as GiB, and `2Ti` likewise. `flag` is
/// for the message of the ConfigError.
int parse_memory_gib(std::string_view text, std::string_view flag);

/// Parses `CLAIM:/path`.
VolumeMount parse_volume(std::string_view text);

} // namespace cairn::launch
