#pragma once

#include <cairn/base/log.h>
#include <cairn/distributed/collective_record.h>
#include <cairn/distributed/environment.h>
#include <cairn/distributed/process_group.h>

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
  /// Gloo for tensors on GPUs, which travel through host memory: slow, but
  /// several ranks may share a GPU.
  gloo_on_gpu
};

struct InitOptions {
  Environment environment = read_environment();
  BackendChoice backend = BackendChoice::automatic;
  /// Time that ranks wait for each other when the job or a group starts:
  /// CAIRN_START_TIMEOUT, else five minutes.
  std::chrono::milliseconds start_timeout =
      read_start_timeout().value_or(std::chrono::minutes(5));
  /// Time after which a collective counts as hung: CAIRN_COLLECTIVE_TIMEOUT,
  /// else ten minutes.
  std::chrono::milliseconds collective_timeout =
      read_collective_timeout().value_or(std::chrono::minutes(10));
  /// Time that a rank has for its notes before the others call it gone.
  std::chrono::milliseconds notes_grace = std::chrono::seconds(3);
  std::size_t recorder_capacity = 256;
  /// True when gloo groups of ranks on one machine exchange data through shared
  /// memory: CAIRN_SHARED_MEMORY, else true.
  bool shared_memory = read_shared_memory().value_or(true);
  /// A socket that already listens on the master's port, for rank 0 to take
  /// over. With it, a launcher can pick a free port without a race.
  std::optional<int> listen_fd;
  /// Receiver of messages; unset: stderr, with the rank.
  std::optional<Logger> logger;
};

/// This process's place in the job. Copies share the connections, which close
/// with the last copy and the last group made from it.
class World {
 public:
  World(std::shared_ptr<Job> job, ProcessGroup group);

  int rank() const { return group_.rank(); }
  int size() const { return group_.size(); }
  int local_rank() const { return environment().local_rank; }
  const Environment& environment() const;
  /// The group of all ranks.
  const ProcessGroup& group() const { return group_; }
  /// Device of this rank's tensors: "cuda:N" if the rank has a GPU that its
  /// backend can use, else "cpu".
  std::string device_name() const;
  /// The last collectives of this rank, oldest first.
  std::vector<CollectiveRecord> records() const;
  /// Traffic of the collectives of this rank so far.
  std::vector<Traffic> traffic() const;
  /// Place of the table that the ranks met in, "host:port", for libraries that
  /// bring their ranks together in the same way. Empty in a world of one rank
  /// that has none.
  std::string store_address() const;

 private:
  std::shared_ptr<Job> job_;
  ProcessGroup group_;
};

/// Joins the job that the environment describes; without one, makes a world of
/// one. While a World of the same job and backend is alive, returns that World
/// again. Throws CommError naming the ranks that did not come.
World init_distributed(const InitOptions& options = {});

/// "cuda:N" where GPUs are built in and visible, else "cpu". Throws ConfigError
/// when `local_rank` has no GPU: there are fewer GPUs than ranks on this
/// machine.
std::string device_name(int local_rank);

} // namespace cairn::distributed
