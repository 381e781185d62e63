#pragma once

#include <cairn/distributed/init_distributed.h>

#include <chrono>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace cairn::testing {

struct RanksOptions {
  int ranks = 2;
  distributed::BackendChoice backend = distributed::BackendChoice::gloo;
  /// True when NCCL is to take all ranks on one GPU, as with
  /// `cairn launch --share_gpu`.
  bool share_gpu = false;
  std::chrono::milliseconds start_timeout = std::chrono::seconds(20);
  std::chrono::milliseconds collective_timeout = std::chrono::seconds(20);
  std::chrono::milliseconds notes_grace = std::chrono::seconds(1);
  bool shared_memory = distributed::read_shared_memory().value_or(true);
  /// Time after which all processes are killed and the test fails.
  std::chrono::seconds limit = std::chrono::seconds(60);
  /// Ranks that the test itself kills: their death is no failure.
  std::set<int> dies;
};

/// Options of ranks that use one GPU over NCCL. Starting CUDA and connecting
/// through sockets takes longer than on a CPU.
inline RanksOptions ranks_on_one_gpu(int ranks) {
  return {
      .ranks = ranks,
      .backend = distributed::BackendChoice::nccl,
      .share_gpu = true,
      .start_timeout = std::chrono::seconds(60),
      .collective_timeout = std::chrono::seconds(60),
      .limit = std::chrono::seconds(200)};
}

/// The end of one rank.
struct RankOutcome {
  int status = 0;  ///< as waitpid() has it
  std::string log; ///< its output on stderr
};

/// Runs `body` in that many real processes, each a rank of one job, and waits
/// for them all. Failed expectations and exceptions of a rank become failures
/// of the running test, with the rank's number. Forks, so nothing may have
/// started a thread in this process before.
std::vector<RankOutcome> run_ranks(
    const RanksOptions& options,
    const std::function<void(distributed::World)>& body);

/// Runs ranks with default options and gives `body` the group of all.
void run_ranks(
    int ranks,
    const std::function<void(const distributed::ProcessGroup&)>& body);

/// Runs processes without a job: `body` gets the options to start one itself.
std::vector<RankOutcome> run_processes(
    const RanksOptions& options,
    const std::function<void(const distributed::InitOptions&)>& body);

} // namespace cairn::testing
