#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::launch {

/// The variable that identifies the processes of a job, including those that
/// have left their process group, session and parents.
inline constexpr const char* launch_id_variable = "CAIRN_LAUNCH_ID";

/// A new id that no other launcher has.
std::string make_launch_id();

/// Processes of this user whose environment held the id when they started.
std::vector<pid_t> processes_with_launch_id(std::string_view id);

/// Living descendants of `root`, without those in `spared` and their
/// descendants.
std::vector<pid_t> descendants(
    pid_t root,
    const std::vector<pid_t>& spared = {});

/// Kills every process of the job `id` and every descendant of this process
/// that is not spared, reaps those that thereby become our children, and
/// repeats until nothing is left. Returns the processes that even SIGKILL has
/// not ended by `deadline` (such as one that waits for a broken disk or
/// driver).
std::vector<pid_t> sweep_processes(
    std::string_view id,
    const std::vector<pid_t>& spared,
    std::chrono::steady_clock::time_point deadline);

} // namespace cairn::launch
