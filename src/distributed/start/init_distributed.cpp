#include <cairn/distributed/init_distributed.h>

#include "base/internal/error_handover.h"
#include "base/internal/job_secret.h"
#include "base/internal/sync_file.h"
#include "distributed/backends/group_core.h"
#include "distributed/internal/agreement.h"
#include "distributed/internal/comms_log.h"
#include "distributed/internal/end_job.h"
#include "distributed/secret_store/secret_table.h"
#include "distributed/start/job.h"
#include "distributed/start/join_job.h"
#include "distributed/start/open_files.h"
#include "distributed/start/tcp_store.h"
#include "distributed/start/timeout.h"
#include "distributed/watch/quiet_pipes.h"
#include "distributed/watch/watchdog.h"

#include <cairn/base/error.h>
#include <fmt/core.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

namespace cairn::distributed {
namespace {

using detail::GroupCore;
using std::chrono::milliseconds;

BackendChoice choose(BackendChoice asked, int world_size) {
  if (asked != BackendChoice::automatic || world_size == 1) {
    return asked;
  }
  return visible_gpus() > 0 ? BackendChoice::nccl : BackendChoice::gloo;
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

/// True when all ranks are surely on this machine. Slurm's number of tasks per
/// node is what was asked for, and not where they run.
bool is_on_one_machine(const Environment& environment) {
  return environment.source != Environment::Source::slurm &&
      environment.local_world_size == environment.world_size;
}

/// Makes room for the connections of all ranks, which the host of the store
/// holds, and of strangers, whom a table with a secret listens to; and for the
/// files of a checkpoint of as many ranks, all of which a rank may have to open
/// if few ranks load it.
void make_room_for_files(
    const Environment& environment,
    bool hosts_store,
    bool has_secret,
    const Logger& logger) {
  const std::uint64_t strangers =
      hosts_store && has_secret ? SecretTable::most_strangers : 0;
  const std::uint64_t needed =
      4 * static_cast<std::uint64_t>(environment.world_size) + 256 + strangers;
  const std::uint64_t allowed = allow_open_files(needed);
  // Connections to each rank, and some files of libraries and data.
  const std::uint64_t least = hosts_store
      ? 48 + 2 * static_cast<std::uint64_t>(environment.world_size)
      : 48;
  if (allowed < least) {
    throw ConfigError(
        {.what =
             fmt::format("rank {} may open too few files", environment.rank),
         .values = fmt::format("{}, at least {} are needed", allowed, least),
         .remedy = "raise the limit (ulimit -n, ulimit -Hn)"});
  }
  if (hosts_store && allowed < needed) {
    logger.warning(
        "rank 0 may open {} files, but connections from {} ranks need about "
        "{}: raise the hard limit (ulimit -Hn)",
        allowed,
        environment.world_size,
        needed);
  }
}

/// Joins the job. `starts` counts the worlds that this process has joined at
/// the same store before: a launcher's store outlives them, and the next world
/// must not read their keys. All ranks join equally often.
std::shared_ptr<GroupCore> start(
    const InitOptions& options,
    BackendChoice backend,
    std::uint64_t& starts) {
  auto job = std::make_shared<Job>();
  job->environment = options.environment;
  job->start_timeout = options.start_timeout;
  const Environment& environment = job->environment;
  if (backend == BackendChoice::automatic) {
    return GroupCore::alone(std::move(job), "world", 0);
  }
  claim_error_memory();
  const milliseconds timeout = options.collective_timeout;
  const FactoryOptions factory = {
      .timeout = timeout + 4 * options.notes_grace + std::chrono::minutes(1),
      .start_timeout = options.start_timeout,
      .one_machine = is_loopback(environment.master_address),
      .local_rank = environment.local_rank};
  const QuietPipes quiet;
  const Logger logger = options.logger.value_or(
      Logger({.rank = environment.rank, .world_size = environment.world_size}));
  // The factory comes first: it refuses a backend that is not built in.
  if (backend == BackendChoice::nccl) {
    job->factory = nccl_factory(factory);
  } else {
    job->factory = shared_memory_factory(
        gloo_factory(factory),
        {.wanted = options.shared_memory,
         .timeout = options.start_timeout,
         .logger = logger});
    if (backend == BackendChoice::gloo_on_gpu) {
      job->factory = host_staged_factory(std::move(job->factory));
    }
  }
  const bool alone = environment.source == Environment::Source::alone;
  const bool hosts = environment.rank == 0 && !environment.launcher_has_store;
  // The store of a launcher that is not ours knows no secrets.
  const std::string secret = environment.launcher_has_store
      ? ""
      : process_variable(job_secret_variable).value_or("");
  make_room_for_files(environment, hosts, !secret.empty(), logger);
  job->store = open_tcp_store(
      {.host = environment.master_address,
       .port = alone && !options.listen_fd ? std::uint16_t{0}
                                           : environment.master_port,
       .is_server = hosts,
       .one_machine = is_on_one_machine(environment),
       .listen_fd = hosts ? options.listen_fd : std::nullopt,
       .timeout = options.start_timeout,
       .patience = start_patience,
       .on_wait =
           [&] {
             logger.info(
                 "waiting for {} at {}:{} (MASTER_ADDR, MASTER_PORT), up to "
                 "{:.0f} s",
                 environment.launcher_has_store ? "the launcher" : "rank 0",
                 environment.master_address,
                 environment.master_port,
                 std::chrono::duration<double>(options.start_timeout).count());
           },
       .prefix = fmt::format("cairn/{}/{}", environment.attempt, starts),
       .secret = secret});
  ++starts;
  join_job(
      *job,
      {.hosts_store = hosts,
       .collective_timeout = timeout,
       .notes_grace = options.notes_grace,
       .recorder_capacity = options.recorder_capacity,
       .logger = logger});
  return GroupCore::make(
      std::move(job),
      "world",
      all_ranks(environment.world_size));
}

} // namespace

World init_distributed(const InitOptions& asked) {
  InitOptions options = asked;
  options.start_timeout = bounded(asked.start_timeout);
  options.collective_timeout = bounded(asked.collective_timeout);
  options.notes_grace = bounded(asked.notes_grace);
  disk_timeout(); // refuses what it cannot read before hours have been trained
  const Environment& environment = options.environment;
  const BackendChoice backend = choose(asked.backend, environment.world_size);
  // These statics are the one exception to "no globals": two libraries in one
  // program that both start the job must meet in one world, and neither knows
  // of the other. They hold nothing alive: the world ends with its last user.
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<GroupCore>> alive;
  static std::map<std::string, std::uint64_t> starts;
  const std::string place = fmt::format(
      "{}:{} {}/{} attempt {}",
      environment.master_address,
      environment.master_port,
      environment.rank,
      environment.world_size,
      environment.attempt);
  const std::string key =
      fmt::format("{} backend {}", place, static_cast<int>(backend));
  const std::lock_guard lock(mutex);
  std::erase_if(alive, [](const auto& entry) {
    return entry.second.expired();
  });
  const auto found = alive.find(key);
  std::shared_ptr<GroupCore> core =
      found == alive.end() ? nullptr : found->second.lock();
  if (!core) {
    core = start(options, backend, starts[place]);
    alive[key] = core;
  }
  std::shared_ptr<Job> job = core->job;
  return {std::move(job), ProcessGroup(std::move(core))};
}

World::World(std::shared_ptr<Job> job, ProcessGroup group)
    : job_(std::move(job)), group_(std::move(group)) {}

const Environment& World::environment() const {
  return job_->environment;
}

std::string World::device_name() const {
  if (group_.backend() == "gloo") {
    return "cpu";
  }
  const int gpus = visible_gpus();
  const bool shared = group_.backend() == "gloo on gpu" && gpus > 0;
  return distributed::device_name(shared ? local_rank() % gpus : local_rank());
}

std::vector<CollectiveRecord> World::records() const {
  return job_->watchdog ? job_->watchdog->recorder().records()
                        : std::vector<CollectiveRecord>{};
}

std::vector<Traffic> World::traffic() const {
  return job_->watchdog ? job_->watchdog->recorder().traffic()
                        : std::vector<Traffic>{};
}

std::string World::store_address() const {
  return job_->store ? job_->store->address() : "";
}

void log_calls(const World& world, std::shared_ptr<CommsLog> log) {
  const std::shared_ptr<Job>& job = Agreement::core_of(world.group())->job;
  if (!job) {
    return; // a rank alone makes no calls
  }
  const std::lock_guard lock(job->mutex);
  job->comms_log = std::move(log);
}

void end_job(const World& world, const std::string& error) {
  const std::shared_ptr<Job>& job = Agreement::core_of(world.group())->job;
  if (job && job->watchdog) {
    job->watchdog->end_with(error);
  }
}

std::string device_name(int local_rank) {
  const int gpus = visible_gpus();
  if (gpus == 0) {
    return "cpu";
  }
  if (local_rank < 0 || local_rank >= gpus) {
    throw ConfigError(
        {.what = fmt::format(
             "local rank {} has no GPU: {} visible",
             local_rank,
             gpus),
         .remedy = "start at most one rank per GPU, or widen "
                   "CUDA_VISIBLE_DEVICES"});
  }
  return fmt::format("cuda:{}", local_rank);
}

} // namespace cairn::distributed
