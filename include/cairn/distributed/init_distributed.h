#pragma once

#include <cairn/base/log.h>
#include <cairn/distributed/environment.h>
#include <cairn/distributed/flight_recorder.h>
#include <cairn/distributed/process_group.h>
#include <cairn/distributed/traffic.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

namespace cairn::distributed {

struct Job;

enum class BackendChoice {
  automatic, ///< local for one rank, nccl where there are GPUs, else gloo
  gloo,
  nccl,
  /// GPU tensors that travel through host memory: slow, but several ranks may
  /// share a GPU.
  gloo_on_gpu
};

struct InitOptions {
  Environment environment = read_environment();
  BackendChoice backend = BackendChoice::automatic;
  /// How long ranks wait for each other when the job or a group starts:
  /// CAIRN_START_TIMEOUT, else five minutes.
  std::chrono::milliseconds start_timeout =
      read_start_timeout().value_or(std::chrono::minutes(5));
  /// After this a collective counts as hung.
  std::chrono::milliseconds collective_timeout =
      read_collective_timeout().value_or(std::chrono::minutes(10));
  /// How long a rank has for its notes before the others call it gone.
  std::chrono::milliseconds notes_grace = std::chrono::seconds(3);
  std::size_t recorder_capacity = 256;
  /// Whether gloo groups of ranks on one machine exchange data through shared
  /// memory: CAIRN_SHARED_MEMORY, else yes.
  bool shared_memory = read_shared_memory().value_or(true);
  /// A socket that listens on the master's port already, for rank 0 to take
  /// over: whoever starts a job can so pick a free port without a race.
  std::optional<int> listen_fd;
  /// Unset: to stderr, with the rank.
  std::optional<Logger> logger;
};

/// This process's place in the job. A value; copies share the connections,
/// which close with the last copy and the last group made from it.
class World {
 public:
  World(std::shared_ptr<Job> job, ProcessGroup group);

  int rank() const { return group_.rank(); }
  int size() const { return group_.size(); }
  int local_rank() const { return environment().local_rank; }
  const Environment& environment() const;
  /// All ranks.
  const ProcessGroup& group() const { return group_; }
  /// Where this rank's tensors go: "cuda:N" if it has a GPU that its backend
  /// can use, else "cpu".
  std::string device_name() const;
  /// The last collectives of this rank, oldest first.
  std::vector<CollectiveRecord> records() const;
  /// What its collectives have moved so far.
  std::vector<Traffic> traffic() const;

 private:
  std::shared_ptr<Job> job_;
  ProcessGroup group_;
};

/// Joins the job that the environment describes; without one, a world of one.
/// Called again while a World of the same job is alive, it returns that one.
/// Throws CommError naming the ranks that did not come.
World init_distributed(const InitOptions& options = {});

/// "cuda:N" where GPUs are built in and visible, else "cpu". Throws ConfigError
/// when there are fewer GPUs than ranks on this machine.
std::string device_name(int local_rank);

} // namespace cairn::distributed
