#pragma once

#include <cairn/base/log.h>

#include <chrono>
#include <cstddef>
#include <vector>

namespace cairn::distributed {

struct Job;

/// Time after which a rank reports which ranks it waits for.
constexpr std::chrono::milliseconds start_patience = std::chrono::seconds(10);

struct JoinOptions {
  bool hosts_store = false; ///< true when the store ends with this rank
  std::chrono::milliseconds collective_timeout{};
  std::chrono::milliseconds notes_grace{};
  std::size_t recorder_capacity = 256;
  Logger logger;
};

/// Waits in the job's store until all ranks have come, and starts the job's
/// watchdog. Environment, timeout and store of the job are set already. Throws
/// CommError naming the ranks that did not come.
void join_job(Job& job, const JoinOptions& options);

/// The numbers from 0 to `world_size` - 1.
std::vector<int> all_ranks(int world_size);

} // namespace cairn::distributed
