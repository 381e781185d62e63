#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::launch {

/// The variable that identifies the processes of a job, including those that
/// have left their process group, session and parents.
inline constexpr const char* launch_id_variable = "CAIRN_LAUNCH_ID";

/// A new id that no other launcher has.
std::string make_launch_id();

/// A number that marks the processes of the job with this id, as their soft
/// limit on file locks (RLIMIT_LOCKS). Linux has not used that limit since
/// version 2.4, every process inherits it, and /proc shows it: it marks also
/// those that have cleared their environment.
std::uint64_t lock_limit_of(std::string_view launch_id);

/// Processes whose environment held the id when they started, and those of this
/// user that carry its lock limit; for root, those of any user.
std::vector<pid_t> processes_of_launch(std::string_view id);

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
