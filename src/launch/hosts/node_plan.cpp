#include "launch/internal/node_plan.h"

#include "base/internal/error_handover.h"
#include "base/internal/terminal.h"
#include "launch/internal/shared_gpu.h"
#include "launch/supervise/process_sweep.h"

#include <cairn/base/error.h>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

namespace cairn::launch {
namespace {

/// The GPUs of these slots of the host.
std::string gpu_list(
    const Host& host,
    std::span<const int> slots,
    const Machine& machine) {
  std::vector<std::string> gpus;
  for (const int slot : slots) {
    if (static_cast<std::size_t>(slot) >= machine.gpus.size()) {
      throw ConfigError(
          {.what = fmt::format(
               "slot {} of host {} is wanted, but it has {} GPUs",
               slot,
               host.name,
               machine.gpus.size()),
           .remedy = "use fewer slots; to run without GPUs set "
                     "CUDA_VISIBLE_DEVICES to nothing"});
    }
    gpus.push_back(machine.gpus[static_cast<std::size_t>(slot)]);
  }
  return fmt::format("{}", fmt::join(gpus, ","));
}

/// An equal share of neighbouring cores for each rank. A remainder stays idle,
/// since faster ranks would wait for the slowest anyway.
std::vector<int> core_share(
    const std::vector<int>& cores,
    std::size_t local_rank,
    std::size_t ranks) {
  const auto share = cores.size() / ranks;
  const auto first =
      cores.begin() + static_cast<std::ptrdiff_t>(share * local_rank);
  return {first, first + static_cast<std::ptrdiff_t>(share)};
}

} // namespace

bool is_set_by_launcher(std::string_view variable) {
  constexpr std::array<std::string_view, 13> names = {
      "RANK",
      "WORLD_SIZE",
      "LOCAL_RANK",
      "LOCAL_WORLD_SIZE",
      "NODE_RANK",
      "GROUP_RANK",
      "GROUP_WORLD_SIZE",
      "MASTER_ADDR",
      "MASTER_PORT",
      "CUDA_VISIBLE_DEVICES",
      "CAIRN_RESTART_COUNT",
      error_memory_variable,
      lent_terminal_variable};
  return std::find(names.begin(), names.end(), variable) != names.end() ||
      variable == launch_id_variable;
}

NodePlan plan_node(
    const JobRanks& world,
    int node_rank,
    const Machine& machine,
    const Program& program,
    const NodeOptions& options) {
  const Host& host = world.hosts.at(static_cast<std::size_t>(node_rank));
  const auto ranks = host.slots.size();
  const auto& bind = options.bind_cores;
  if (!bind.empty() && bind.size() < ranks) {
    throw ConfigError(
        {.what = fmt::format(
             "{} ranks on {} cannot be bound to {} cores",
             ranks,
             host.name,
             bind.size()),
         .remedy = "leave --bind_cores_to_rank out, or run fewer ranks"});
  }
  const int cores =
      bind.empty() ? machine.threads : static_cast<int>(bind.size());
  const int threads = std::max(1, cores / static_cast<int>(ranks));

  Variables common = options.environment;
  const auto set = [&](const char* name, const auto& value) {
    common.emplace_back(name, fmt::format("{}", value));
  };
  set("WORLD_SIZE", world.size());
  if (!options.share_gpu) {
    set("LOCAL_WORLD_SIZE", ranks);
    set("NODE_RANK", node_rank);
    set("GROUP_RANK", node_rank);
    set("GROUP_WORLD_SIZE", world.hosts.size());
  }
  set("MASTER_ADDR", world.master_addr);
  set("MASTER_PORT", options.master_port);
  set("CAIRN_RESTART_COUNT", options.restart_count);
  if (!options.omp_threads_chosen) {
    set("OMP_NUM_THREADS", threads);
  }
  if (!machine.gpus.empty()) {
    const std::span<const int> slots(host.slots);
    set("CUDA_VISIBLE_DEVICES",
        gpu_list(host, options.share_gpu ? slots.first(1) : slots, machine));
  }

  NodePlan plan{
      .host = host.name,
      .node_rank = node_rank,
      .restart_count = options.restart_count,
      .ranks = {}};
  for (std::size_t local = 0; local < ranks; ++local) {
    RankPlan rank;
    rank.local_rank = options.share_gpu ? 0 : static_cast<int>(local);
    rank.rank = world.first_rank_of(node_rank) + static_cast<int>(local);
    rank.command = program.command;
    if (program.takes_local_rank) {
      rank.command.push_back(fmt::format("--local_rank={}", rank.local_rank));
    }
    rank.environment = common;
    rank.environment.emplace_back("RANK", fmt::format("{}", rank.rank));
    if (options.share_gpu) {
      const auto shared = shared_gpu_variables(rank.rank, world.size());
      rank.environment.insert(
          rank.environment.end(),
          shared.begin(),
          shared.end());
    } else {
      rank.environment.emplace_back(
          "LOCAL_RANK",
          fmt::format("{}", rank.local_rank));
    }
    if (!bind.empty()) {
      rank.cores = core_share(bind, local, ranks);
    }
    plan.ranks.push_back(std::move(rank));
  }
  return plan;
}

} // namespace cairn::launch
