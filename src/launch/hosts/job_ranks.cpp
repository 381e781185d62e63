#include "launch/internal/job_ranks.h"

#include "launch/internal/host_filter.h"

#include <cairn/base/error.h>

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <system_error>
#include <utility>

namespace cairn::launch {
namespace {

void check_node_rank(const JobRanksOptions& options, int nodes) {
  if (options.node_rank.value_or(0) >= nodes) {
    throw ConfigError(
        {.what = fmt::format(
             "--node_rank {}, but there are {} nodes",
             *options.node_rank,
             nodes),
         .remedy = "nodes are counted from 0"});
  }
}

void check_counts(const JobRanksOptions& options) {
  const auto check = [](const char* flag, std::optional<int> value, int least) {
    if (value && *value < least) {
      throw ConfigError(
          {.what = fmt::format("{} {} is too small", flag, *value),
           .remedy = fmt::format("give at least {}", least)});
    }
  };
  check("--num_nodes", options.nodes, 1);
  check("--num_gpus", options.ranks_per_node, 1);
  check("--node_rank", options.node_rank, 0);
  if (options.nodes) {
    check_node_rank(options, *options.nodes);
  }
  if (options.ranks_per_node.value_or(1) > 4096 ||
      options.nodes.value_or(1) > 65536) {
    throw ConfigError(
        {.what = "more than 4096 ranks per node or 65536 nodes",
         .values = fmt::format(
             "--num_gpus {}, --num_nodes {}",
             options.ranks_per_node.value_or(1),
             options.nodes.value_or(1))});
  }
  if (options.master_port &&
      (*options.master_port < 1 || *options.master_port > 65535)) {
    throw ConfigError(
        {.what = fmt::format(
             "--master_port {} is not a port",
             *options.master_port),
         .remedy = "give one from 1 to 65535, or none for a free one"});
  }
}

void check_filters(const JobRanksOptions& options) {
  const bool filtered = !options.include.empty() || !options.exclude.empty();
  if (!options.include.empty() && !options.exclude.empty()) {
    throw ConfigError(
        {.what = "--include and --exclude exclude each other",
         .remedy = "give one of them"});
  }
  // Ranks that share a GPU are counted by --num_gpus: the filter only says
  // which GPU.
  const bool counted =
      options.nodes || (options.ranks_per_node && !options.share_gpu);
  if (filtered && counted) {
    throw ConfigError(
        {.what = "--num_nodes and --num_gpus cannot be combined with "
                 "--include or --exclude",
         .remedy = "name the slots in the filter: worker-0:0,1"});
  }
}

/// Checks the flags that go with --share_gpu before hosts are looked for.
void check_sharing(const JobRanksOptions& options) {
  if (options.node_rank) {
    throw ConfigError(
        {.what = "--share_gpu with --node_rank",
         .remedy = "leave --node_rank out: the ranks that share a GPU are all "
                   "on this machine"});
  }
  if (options.nodes.value_or(1) > 1) {
    throw ConfigError(
        {.what = fmt::format("--share_gpu with --num_nodes {}", *options.nodes),
         .remedy = "leave --num_nodes out: the ranks that share a GPU are all "
                   "on this machine"});
  }
  if (!options.ranks_per_node) {
    throw ConfigError(
        {.what = "--share_gpu without --num_gpus",
         .remedy = "give the number of ranks: --share_gpu --num_gpus 4"});
  }
}

/// Gives every rank the slot of the one GPU: the first that the filters leave.
void share_first_slot(
    std::vector<Host>& hosts,
    const JobRanksOptions& options,
    const Machine& machine) {
  if (hosts.size() > 1) {
    throw ConfigError(
        {.what = fmt::format("--share_gpu with {} hosts", hosts.size()),
         .remedy = "name one host with --include, or leave the host file out: "
                   "the ranks that share a GPU are all on this machine"});
  }
  if (machine.gpus.empty()) {
    throw ConfigError(
        {.what = "--share_gpu, but this machine has no visible GPU",
         .remedy = "leave it out: without GPUs there are as many ranks as "
                   "--num_gpus says"});
  }
  auto& slots = hosts.front().slots;
  slots.assign(
      static_cast<std::size_t>(*options.ranks_per_node),
      slots.front());
}

/// All hosts, before any flag reduces their number.
std::vector<Host> find_pool(
    const JobRanksOptions& options,
    const Machine& machine) {
  std::error_code unreadable;
  if (!options.hostfile.empty()) {
    if (!std::filesystem::exists(options.hostfile, unreadable)) {
      throw ConfigError(
          {.what = "there is no such host file",
           .where = options.hostfile,
           .remedy = "leave --hostfile out to run on this machine alone"});
    }
    return read_hostfile(options.hostfile);
  }
  if (std::filesystem::exists(default_hostfile, unreadable)) {
    return read_hostfile(default_hostfile);
  }
  const int gpus = static_cast<int>(machine.gpus.size());
  const int slots = gpus > 0 ? gpus : options.ranks_per_node.value_or(1);
  const int nodes = options.nodes.value_or(1);
  if (nodes == 1) {
    return {host_with_slots("localhost", slots)};
  }
  if (options.node_rank && options.master_addr.empty()) {
    throw ConfigError(
        {.what = fmt::format(
             "--node_rank {} of {} nodes without --master_addr",
             *options.node_rank,
             nodes),
         .remedy = "give every node the address of node 0 there"});
  }
  if (!options.node_rank) {
    throw ConfigError(
        {.what = fmt::format("{} nodes, and no host file names them", nodes),
         .remedy =
             "give --hostfile to start them all from here with ssh, or start "
             "one launcher on every node with --node_rank and --master_addr"});
  }
  std::vector<Host> pool;
  for (int node = 0; node < nodes; ++node) {
    pool.push_back(host_with_slots(fmt::format("node-{}", node), slots));
  }
  return pool;
}

void keep_nodes(std::vector<Host>& hosts, int nodes) {
  if (static_cast<std::size_t>(nodes) > hosts.size()) {
    throw ConfigError(
        {.what = fmt::format(
             "--num_nodes {}, but the host file has {}",
             nodes,
             hosts.size()),
         .remedy = "add hosts to it or ask for fewer nodes"});
  }
  hosts.resize(static_cast<std::size_t>(nodes));
}

void keep_slots(std::vector<Host>& hosts, int slots) {
  for (Host& host : hosts) {
    if (static_cast<std::size_t>(slots) > host.slots.size()) {
      throw ConfigError(
          {.what = fmt::format(
               "--num_gpus {}, but {} has {}",
               slots,
               host.name,
               host.slots.size()),
           .remedy = "ask for fewer; to run without GPUs set "
                     "CUDA_VISIBLE_DEVICES to nothing, or raise slots= in the "
                     "host file"});
    }
    host.slots.resize(static_cast<std::size_t>(slots));
  }
}

std::string choose_master(
    const JobRanksOptions& options,
    const std::vector<Host>& hosts) {
  if (!options.master_addr.empty()) {
    return options.master_addr;
  }
  const auto& first = hosts.front().name;
  if (hosts.size() == 1 && first == "localhost") {
    return "127.0.0.1";
  }
  if (hosts.size() > 1 && (first == "localhost" || first == "127.0.0.1")) {
    throw ConfigError(
        {.what = fmt::format(
             "the first host is called {}, where the other {} cannot reach it",
             first,
             hosts.size() - 1),
         .remedy = "give --master_addr, or its real name in the host file"});
  }
  return first;
}

} // namespace

int JobRanks::size() const {
  return first_rank_of(static_cast<int>(hosts.size()));
}

int JobRanks::first_rank_of(int node) const {
  int rank = 0;
  for (int i = 0; i < node; ++i) {
    rank += static_cast<int>(hosts[static_cast<std::size_t>(i)].slots.size());
  }
  return rank;
}

JobRanks choose_ranks(const JobRanksOptions& options, const Machine& machine) {
  check_counts(options);
  check_filters(options);
  if (options.share_gpu) {
    check_sharing(options);
  }
  auto hosts = find_pool(options, machine);
  if (!options.include.empty()) {
    hosts = include_hosts(hosts, options.include);
  } else if (!options.exclude.empty()) {
    hosts = exclude_hosts(hosts, options.exclude);
  }
  if (options.nodes) {
    keep_nodes(hosts, *options.nodes);
  }
  if (options.share_gpu) {
    share_first_slot(hosts, options, machine);
  } else if (options.ranks_per_node) {
    keep_slots(hosts, *options.ranks_per_node);
  }
  check_node_rank(options, static_cast<int>(hosts.size()));
  JobRanks world;
  world.master_addr = choose_master(options, hosts);
  world.master_port = options.master_port;
  if (!world.master_port && hosts.size() > 1) {
    world.master_port = default_master_port;
  }
  world.hosts = std::move(hosts);
  return world;
}

} // namespace cairn::launch
