#pragma once

#include <cairn/config/flags.h>
#include <cairn/distributed/init_distributed.h>

namespace cairn::cli {

/// Joins the job that the environment describes, with the backend and the
/// timeout that the flags give.
distributed::World join_job(const config::DistributedFlags& flags);

} // namespace cairn::cli
