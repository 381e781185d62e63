#include "cli/launch/launch_flags.h"

#include <cairn/base/error.h>

#include <fmt/core.h>

#include <filesystem>

namespace cairn::cli {

using namespace cairn::launch;

int print_for_scheduler(const LaunchFlags& flags) {
  ClusterJob job = flags.cluster;
  job.nodes = flags.world.nodes.value_or(1);
  job.gpus_per_node = flags.world.ranks_per_node.value_or(1);
  job.master_port = flags.world.master_port;
  job.max_restarts = flags.job.max_restarts;
  job.environment = chosen_environment(flags);
  job.command = flags.program;
  if (job.nodes < 1 || job.gpus_per_node < 1) {
    throw ConfigError(
        {.what =
             fmt::format("{} nodes of {} GPUs", job.nodes, job.gpus_per_node),
         .remedy = "give at least one of each"});
  }
  if (!flags.memory.empty()) {
    job.memory_gib_per_node = parse_memory_gib(flags.memory, "--memory");
  }
  if (flags.no_local_rank) {
    job.launch_flags.emplace_back("--no_local_rank");
  }
  if (flags.bind_cores) {
    job.launch_flags.emplace_back("--bind_cores_to_rank");
  }
  if (!flags.core_list.empty()) {
    job.launch_flags.push_back(
        fmt::format("--bind_core_list={}", flags.core_list));
  }
  if (flags.grace != LaunchFlags().grace) {
    job.launch_flags.push_back(fmt::format("--grace={}", flags.grace));
  }
  if (!flags.job.log_dir.empty()) {
    job.launch_flags.push_back(
        fmt::format("--log-dir={}", flags.job.log_dir.string()));
  }
  std::vector<VolumeMount> volumes;
  for (const std::string& volume : flags.volumes) {
    volumes.push_back(parse_volume(volume));
  }
  if (flags.print_slurm) {
    auto options = flags.slurm;
    options.mounts = volumes;
    if (job.image.empty()) { // the job's PATH may differ from ours
      options.launcher = std::filesystem::read_symlink("/proc/self/exe");
    }
    fmt::print("{}", slurm_script(job, options));
    return exit_ok;
  }
  auto options = flags.kubernetes;
  options.volumes = volumes;
  if (!flags.shm_size.empty()) {
    options.shm_gib = parse_memory_gib(flags.shm_size, "--shm-size");
  }
  if (options.kind == KubernetesKind::deepspeed_job && !job.command.empty() &&
      is_command(job.command.front())) {
    job.command.insert(job.command.begin(), "cairn");
  }
  fmt::print("{}", kubernetes_manifest(job, options));
  return exit_ok;
}

} // namespace cairn::cli
