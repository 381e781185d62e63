#include "engine/build/call_times.h"

namespace cairn::inline engine {

CallTimes::CallTimes(const Job& job) : job_(job) {
  const config::CommsLoggerConfig& config = job.deepspeed().comms_logger;
  if (!config.enabled) {
    return;
  }
  // Every rank makes it, so that all refuse a wrong name. Only NCCL's calls are
  // waited for on all ranks: the others lose nothing.
  log_ = std::make_shared<distributed::CommsLog>(distributed::CommsLog::Options{
      .verbose = config.verbose && job.speaks(),
      .all = config.prof_all,
      .operations = config.prof_ops,
      .with_site = config.debug,
      .logger = job.logger});
  distributed::log_calls(job.world, log_);
}

CallTimes::~CallTimes() {
  if (!log_) {
    return;
  }
  distributed::log_calls(job_.world, nullptr);
  if (job_.speaks()) {
    job_.logger.info(
        "comms_logger: calls of rank 0 with the other ranks\n{}",
        log_->summary());
  }
}

} // namespace cairn::engine
