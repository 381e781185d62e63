#pragma once

#include "launch/internal/cluster_job.h"

#include <optional>
#include <string>
#include <vector>

namespace cairn::launch {

enum class KubernetesKind {
  pytorch_job,   ///< of Kubeflow's training operator
  deepspeed_job, ///< batch.tensorstack.dev/v1beta1
};

struct KubernetesOptions {
  KubernetesKind kind = KubernetesKind::pytorch_job;
  std::string name_space;
  std::string queue;    ///< of the batch scheduler
  std::string priority; ///< a PyTorchJob's class, a DeepSpeedJob's number
  std::vector<VolumeMount> volumes;
  std::optional<int> shm_gib; ///< of /dev/shm; empty: as memory allows
  bool debug = false;         ///< idle pods, to be entered with kubectl exec
};

/// A manifest for `kubectl create -f`. Throws ConfigError for a name that
/// Kubernetes would refuse, and when the job lacks something that the kind
/// needs.
std::string kubernetes_manifest(
    const ClusterJob& job,
    const KubernetesOptions& options);

} // namespace cairn::launch
