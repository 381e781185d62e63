#pragma once

#include "launch/supervise/supervised_child.h"
#include "launch/supervise/supervision.h"

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

// Children that a signal has stopped: others may wait for them, in vain or
// because somebody has paused the whole job.

namespace cairn::launch {

using Children = std::vector<std::unique_ptr<SupervisedChild>>;

/// Gives the children of a paused job their time anew, because one of them goes
/// on: the others will do so soon, too.
void end_pause(const Children& children, const SupervisionOptions& options);

/// The child that has been stopped for longest while others wait for it; null
/// when there is none.
SupervisedChild* first_stopped(
    const Children& children,
    const SupervisionOptions& options);

/// The end of the time that first_stopped() may be stopped.
std::optional<std::chrono::steady_clock::time_point> deadline_of_stopped(
    const Children& children,
    const SupervisionOptions& options);

} // namespace cairn::launch
