#pragma once

#include <cairn/plan/estimate.h>

namespace cairn::plan {

/// Throws ConfigError for a layout that the training cannot have, and for one
/// that the cluster's description says too little about.
void check_layout(
    const Training& training,
    const RunLayout& layout,
    const Cluster& cluster);

} // namespace cairn::plan
