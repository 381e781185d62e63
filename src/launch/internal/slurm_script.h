#pragma once

#include "launch/internal/cluster_job.h"

#include <string>

namespace cairn::launch {

struct SlurmOptions {
  std::string launcher = "cairn"; ///< the name of this program on a node
  std::string partition;
  std::string account;
  std::string time;                ///< limit for sbatch, e.g. 2-00:00:00
  std::vector<VolumeMount> mounts; ///< `claim` is a host folder
};

/// A script for sbatch that runs the job with one launcher per node. Throws
/// ConfigError for a value that no #SBATCH line can hold (a line break) and for
/// a time limit that sbatch would not accept.
std::string slurm_script(const ClusterJob& job, const SlurmOptions& options);

} // namespace cairn::launch
