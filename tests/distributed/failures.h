#pragma once

#include "support/run_ranks.h"

#include <ATen/core/Tensor.h>
#include <cairn/distributed/init_distributed.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

// Failures of a rank, for ranks with any backend: failure_test.cpp has them on
// the CPU, nccl_failure_test.cpp over NCCL. In each of them all ranks end.

namespace cairn::distributed::failures {

using testing::RankOutcome;
using testing::RanksOptions;

/// The text of the CommError that the call throws.
std::string comm_error(const std::function<void()>& call);

/// Lines of the rank's log that name a culprit.
std::vector<std::string> error_lines(const RankOutcome& outcome);

/// Stays away from every collective until the other ranks have given up.
void wait_for_death_of_job(const ProcessGroup& group);

/// Tensor on the device of the rank.
at::Tensor ones(const World& world, std::int64_t size);

/// Waits until the data is there; throws if the call has failed. On a GPU
/// wait() alone orders the stream and returns.
void finish(Pending pending);

/// The rank `victim` kills itself while the others wait for it.
void a_killed_rank_is_named(RanksOptions options, int victim);
/// The rank `victim` is suspended (SIGSTOP) while the others wait for it, and
/// stays so until they have ended.
void a_stopped_rank_is_named(const RanksOptions& options, int victim);
/// The last rank does not come to a collective.
void a_sleeping_rank_is_named(const RanksOptions& options);
void a_rank_that_left_is_named(const RanksOptions& options);
void a_message_that_nobody_sends_is_explained(const RanksOptions& options);
void a_barrier_gives_up_in_time(const RanksOptions& options);
/// Rank 1 gathers where the others reduce.
void a_rank_on_another_operation_is_named(const RanksOptions& options);
/// Rank 0 reduces 8 elements and rank 1 reduces `large`.
void a_different_size_is_named(const RanksOptions& options, std::int64_t large);
/// Rank 1 comes to require_all() when rank 0 has given up.
void a_late_rank_does_not_enter_a_required_call_alone(
    const RanksOptions& options);
/// The last rank does not come to a collective, and the others leave without
/// waiting for it.
void a_call_that_nobody_waits_for_ends(const RanksOptions& options);
/// The last rank is suspended before the ranks cut their group into parts, for
/// which NCCL needs all of them.
void a_rank_that_does_not_connect_is_named(const RanksOptions& options);
/// Two of four ranks hang on each other, the other two are busy.
void groups_of_other_ranks_end_too(const RanksOptions& options);

} // namespace cairn::distributed::failures
