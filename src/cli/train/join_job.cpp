#include "cli/train/join_job.h"

#include "cli/program/error_report.h"
#include "cli/train/stop_signal.h"
#include "distributed/internal/end_job.h"

#include <cairn/base/error.h>

#include <fmt/core.h>

#include <chrono>
#include <exception>

namespace cairn::cli {
namespace {

distributed::BackendChoice backend_of(
    const config::DistributedFlags& flags,
    int world_size) {
  using config::Backend;
  if (!flags.backend) {
    return distributed::BackendChoice::automatic;
  }
  switch (*flags.backend) {
    case Backend::nccl:
      return distributed::BackendChoice::nccl;
    case Backend::gloo:
      return distributed::BackendChoice::gloo;
    case Backend::local:
      break;
  }
  if (world_size > 1) {
    throw ConfigError(
        {.what = "the local backend is for one rank",
         .where = "--distributed-backend",
         .values = fmt::format("{} ranks", world_size),
         .remedy = "choose gloo or nccl"});
  }
  return distributed::BackendChoice::automatic;
}

} // namespace

distributed::World join_job(const config::DistributedFlags& flags) {
  distributed::InitOptions job;
  job.backend = backend_of(flags, job.environment.world_size);
  job.collective_timeout = distributed::read_collective_timeout().value_or(
      std::chrono::minutes(flags.timeout_minutes));
  return distributed::init_distributed(job);
}

int run_in_job(
    const config::DistributedFlags& flags,
    const std::function<int(const distributed::World&)>& body) {
  const distributed::World world = join_job(flags);
  try {
    return body(world);
  } catch (const Stopped&) {
    throw;
  } catch (const std::exception& error) {
    const int code = report_error(error);
    if (dynamic_cast<const CommError*>(&error) == nullptr) {
      distributed::end_job(world, error.what());
    }
    throw Reported{code};
  }
}

} // namespace cairn::cli
