#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::launch {

/// The name of the variable by which a job's processes are known, also those
/// that have left their process group, their session and their parents.
inline constexpr const char* launch_id_variable = "CAIRN_LAUNCH_ID";

/// A value of it that no other launcher has.
std::string make_launch_id();

/// Processes of this user whose environment at their start held the id.
std::vector<pid_t> processes_with_launch_id(std::string_view id);

/// Living descendants of `root`, without those in `spared` and below them.
std::vector<pid_t> descendants(
    pid_t root,
    const std::vector<pid_t>& spared = {});

/// Kills every process of the job `id` and every descendant of this process
/// that is not spared, reaps what becomes our child by that, and looks again
/// until nothing is left. Returns those that even SIGKILL has not ended by
/// `deadline` (a process that waits for a broken disk or driver).
std::vector<pid_t> sweep_processes(
    std::string_view id,
    const std::vector<pid_t>& spared,
    std::chrono::steady_clock::time_point deadline);

} // namespace cairn::launch
