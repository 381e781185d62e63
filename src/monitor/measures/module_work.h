#pragma once

#include "monitor/internal/module_profile.h"
#include "monitor/measures/traced_modules.h"

#include <vector>

namespace cairn::monitor {

/// Adds up what every module computes in `passes` forward and backward passes,
/// as means of one. An event counts for its module and for all around that, for
/// forward within the scope `forward_scope`, and for backward within
/// `backward_scope`, a node of autograd, or the scope of gradients that forward
/// computes. Times are those of kernels if a GPU
/// was seen, else those of the host, without what an event calls.
void add_work(
    std::vector<TracedEvent> events,
    std::int64_t passes,
    ModuleProfile& modules);

/// True when ways to compute something were tried within a pass: its events are
/// not what a pass takes.
bool has_trials(const std::vector<TracedEvent>& events);

} // namespace cairn::monitor
