#pragma once

#include <cairn/launch/node_plan.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::launch {

/// A volume claim and where the ranks see it.
struct VolumeMount {
  std::string claim;
  std::string path;
};

/// A job that a cluster's scheduler is to start: what the Slurm script and the
/// Kubernetes manifest have in common.
struct ClusterJob {
  std::string name = "cairn";
  int nodes = 1;
  int gpus_per_node = 1;
  std::optional<int> cpus_per_node;       ///< none: by the number of GPUs
  std::optional<int> memory_gib_per_node; ///< none: by the number of GPUs
  std::string image;                      ///< container image
  std::string working_dir; ///< empty: the image's, or where it is submitted
  Variables environment;
  std::optional<int> master_port;
  int max_restarts = 0;
  std::vector<std::string> launch_flags; ///< more flags for `cairn launch`
  std::vector<std::string> command;      ///< what every rank runs
};

/// From what a node of so many GPUs should ask for to what it may use.
struct ResourceRange {
  int least = 0;
  int most = 0;
};

/// 2 to 4 CPUs per GPU, as training with a data loader beside each rank needs.
ResourceRange default_cpus(int gpus);

/// 8 to 16 GiB for a single GPU; 32 to 64 GiB for each of several, whose models
/// are larger and whose optimizer states may live in host memory.
ResourceRange default_memory_gib(int gpus);

/// What the job asks for: the user's figure, or the defaults.
ResourceRange cpus_of(const ClusterJob& job);
ResourceRange memory_gib_of(const ClusterJob& job);

/// Reads `16Gi`, `16GiB`, `16G` or `16` as GiB, and `2Ti` likewise. `flag` is
/// for the message of the ConfigError.
int parse_memory_gib(std::string_view text, std::string_view flag);

/// Reads `CLAIM:/path`.
VolumeMount parse_volume(std::string_view text);

} // namespace cairn::launch
