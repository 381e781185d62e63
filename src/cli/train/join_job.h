#pragma once

#include <cairn/config/flags.h>
#include <cairn/distributed/init_distributed.h>

#include <functional>

namespace cairn::cli {

/// Joins the job that the environment describes, with the backend that the
/// flags give, and with their timeout unless CAIRN_COLLECTIVE_TIMEOUT is set.
distributed::World join_job(const config::DistributedFlags& flags);

/// Joins the job and calls `body` in it. When that throws, this rank prints its
/// error and hands it to the launcher, then tells the other ranks, and only
/// then leaves the job: no rank is blamed for what it did to the others.
int run_in_job(
    const config::DistributedFlags& flags,
    const std::function<int(const distributed::World&)>& body);

} // namespace cairn::cli
