#pragma once

#include <cairn/plan/cluster.h>

#include <string>

/// Speeds as "gpu.measured" of a cluster's description has them, with the day
/// on which they were measured.
std::string json_of(
    const cairn::plan::MeasuredSpeeds& measured,
    const std::string& day);
