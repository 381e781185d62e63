#pragma once

#include <cairn/plan/estimate.h>

#include <string>

namespace cairn::cli {

/// One iteration of an estimate with its timeline, in Chrome's trace format:
/// passes of each stage, messages between stages and between data parallel
/// ranks, and offloading. Messages inside of passes are part of them.
std::string plan_trace(const plan::Estimate& estimate);

} // namespace cairn::cli
