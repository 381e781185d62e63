#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace cairn::distributed {

/// The facts about the job that a launcher gave this process.
struct Environment {
  enum class Source { alone, torchrun, slurm, open_mpi };

  Source source = Source::alone;
  int rank = 0;
  int world_size = 1;
  int local_rank = 0; ///< index among the ranks of this machine: picks the GPU
  int local_world_size = 1; ///< 1 where the launcher does not say
  int node_rank = 0;
  std::string master_address = "127.0.0.1";
  std::uint16_t master_port = 29500;
  /// True when the launcher (torchrun) keeps a store of its own at the master's
  /// address. Rank 0 then joins that store as a client.
  bool launcher_has_store = false;
  /// Restarts of the job so far. A restarted job must not read the keys that an
  /// earlier attempt left in the launcher's store.
  int attempt = 0;

  bool operator==(const Environment&) const = default;
};

/// Looks a variable up; an unset one gives nullopt. A parameter of the readers
/// below, so that tests need not touch the real environment.
using Lookup = std::function<std::optional<std::string>(const char* name)>;

/// Looks a variable up in the environment of this process.
std::optional<std::string> process_variable(const char* name);

/// Reads the first of these that is set: RANK, WORLD_SIZE, LOCAL_RANK,
/// MASTER_ADDR and MASTER_PORT (torchrun and every launcher that speaks like
/// it, `cairn launch` too), SLURM_PROCID and its companions (srun),
/// OMPI_COMM_WORLD_* (mpirun). With none of them, or with LOCAL_RANK alone, the
/// job is a world of one.
/// Throws ConfigError naming variable and value, or, when only a part of a
/// launcher's variables is set, which are set and which are missing.
Environment read_environment(const Lookup& lookup = process_variable);

/// Value of CAIRN_COLLECTIVE_TIMEOUT (in seconds), if set.
std::optional<std::chrono::milliseconds> read_collective_timeout(
    const Lookup& lookup = process_variable);

/// Value of CAIRN_SHARED_MEMORY (0 or 1), if set.
std::optional<bool> read_shared_memory(const Lookup& lookup = process_variable);

/// Value of CAIRN_START_TIMEOUT (in seconds), if set.
std::optional<std::chrono::milliseconds> read_start_timeout(
    const Lookup& lookup = process_variable);

} // namespace cairn::distributed
