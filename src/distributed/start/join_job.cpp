#include "distributed/start/join_job.h"

#include "distributed/start/handshake.h"
#include "distributed/start/job.h"
#include "distributed/watch/watchdog.h"

#include <cairn/base/error.h>
#include <fmt/core.h>

#include <numeric>
#include <string>

namespace cairn::distributed {
namespace {

using std::chrono::milliseconds;

double seconds(milliseconds time) {
  return std::chrono::duration<double>(time).count();
}

constexpr const char* verdict_go = "go";

/// Waits for the verdict of rank 0, which is `verdict_go` or why it gave up.
std::string hear_verdict(
    Store& store,
    int rank,
    milliseconds timeout,
    const Logger& logger) {
  store.set(fmt::format("arrived/{}", rank), "");
  if (timeout > start_patience && !store.wait({"start"}, start_patience)) {
    logger.info("waiting for the other ranks at {}", store.address());
  }
  if (!store.wait({"start"}, timeout + std::chrono::seconds(10))) {
    return fmt::format("rank 0 did not come within {:.1f} s", seconds(timeout));
  }
  std::string verdict = store.get("start").value_or("");
  if (verdict != verdict_go) {
    store.set(fmt::format("heard/{}", rank), "");
  }
  return verdict;
}

/// Names the ranks that are late, after some time.
void name_late_ranks(
    Store& store,
    const std::vector<int>& others,
    milliseconds timeout,
    const Logger& logger) {
  std::vector<std::string> arrivals;
  for (const int rank : others) {
    arrivals.push_back(fmt::format("arrived/{}", rank));
  }
  if (timeout <= start_patience || store.wait(arrivals, start_patience)) {
    return;
  }
  std::vector<int> late;
  for (const int rank : others) {
    if (!store.get(fmt::format("arrived/{}", rank))) {
      late.push_back(rank);
    }
  }
  logger.info(
      "waiting for {} at {}, up to {:.0f} s",
      name_ranks(late),
      store.address(),
      seconds(timeout));
}

/// Waits on rank 0 for the others, and tells them the verdict.
std::string give_verdict(
    Store& store,
    int world_size,
    milliseconds timeout,
    const Logger& logger) {
  const std::vector<int> ranks = all_ranks(world_size);
  const std::vector<int> others(ranks.begin() + 1, ranks.end());
  name_late_ranks(store, others, timeout, logger);
  const std::vector<int> missing = meet(store, "arrived", 0, ranks, timeout);
  if (missing.empty()) {
    store.set("start", verdict_go);
    return verdict_go;
  }
  const std::string verdict = fmt::format(
      "{} of {} ranks came within {:.1f} s; missing: {}",
      ranks.size() - missing.size(),
      ranks.size(),
      seconds(timeout),
      name_ranks(missing));
  store.set("start", verdict);
  std::vector<std::string> heard;
  for (const int rank : others) {
    if (store.get(fmt::format("arrived/{}", rank))) {
      heard.push_back(fmt::format("heard/{}", rank));
    }
  }
  store.wait(heard, std::chrono::seconds(2));
  return verdict;
}

/// Waits until all ranks have come. Rank 0 decides whether they have, and tells
/// the others: when rank 0 gives up, they lose the store and with it the
/// reason.
void gather(
    Store& store,
    const Environment& environment,
    milliseconds timeout,
    const Logger& logger) {
  const std::string verdict = environment.rank == 0
      ? give_verdict(store, environment.world_size, timeout, logger)
      : hear_verdict(store, environment.rank, timeout, logger);
  if (verdict != verdict_go) {
    throw CommError(
        {.what = verdict,
         .where = fmt::format(
             "rank {} of {}, store at {}",
             environment.rank,
             environment.world_size,
             store.address()),
         .remedy = "look at the output of the missing ranks: they were not "
                   "started, died, or cannot reach this address"});
  }
}

} // namespace

std::vector<int> all_ranks(int world_size) {
  std::vector<int> ranks(static_cast<std::size_t>(world_size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

void join_job(Job& job, const JoinOptions& options) {
  const Environment& environment = job.environment;
  gather(*job.store, environment, job.start_timeout, options.logger);
  // Groups that are made meet here. Under the load of a thousand ranks an
  // answer takes longer than to a watchdog, which is there for trouble.
  job.store->limit_answers(10 * options.notes_grace);
  job.watchdog = Watchdog::start(
      Watchdog::Options{
          .rank = environment.rank,
          .world_size = environment.world_size,
          .hosts_store = options.hosts_store,
          .store_host =
              environment.launcher_has_store ? "the launcher" : "rank 0",
          .timeout = options.collective_timeout,
          .grace = options.notes_grace,
          .recorder_capacity = options.recorder_capacity,
          .logger = options.logger},
      job.store->clone());
}

} // namespace cairn::distributed
