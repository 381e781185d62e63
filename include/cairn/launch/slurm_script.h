#pragma once

#include <cairn/launch/cluster_job.h>

#include <string>

namespace cairn::launch {

struct SlurmOptions {
  std::string launcher = "cairn"; ///< this program, as a node finds it
  std::string partition;
  std::string account;
  std::string time;                ///< limit, as sbatch reads it: 2-00:00:00
  std::vector<VolumeMount> mounts; ///< host folder as `claim`, for a container
};

/// A script for sbatch that runs the job with one launcher per node. Throws
/// ConfigError for a value that no #SBATCH line can hold (a line break) and for
/// a time limit that sbatch does not read.
std::string slurm_script(const ClusterJob& job, const SlurmOptions& options);

} // namespace cairn::launch
