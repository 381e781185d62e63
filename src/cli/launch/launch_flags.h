#pragma once

#include "cli/program/command.h"
#include "launch/internal/cluster_job.h"
#include "launch/internal/job.h"
#include "launch/internal/job_ranks.h"
#include "launch/internal/kubernetes_manifest.h"
#include "launch/internal/remote_command.h"
#include "launch/internal/slurm_script.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::cli {

enum class Color { automatic, always, never };

/// `--autotuning`: find the best settings, and then train with them.
enum class Autotuning { off, tune, run };

/// The command line of `cairn launch`, as it was typed.
struct LaunchFlags {
  launch::JobRanksOptions world;
  std::string all_hosts; ///< --world, from the launcher that started this one
  std::string ssh_command = launch::default_ssh_command;
  bool no_ssh = false;
  /// The launcher that started this one writes the secret of the job first.
  bool secret_on_stdin = false;
  bool no_local_rank = false;
  bool no_python = false;
  bool bind_cores = false;
  std::string core_list;
  std::vector<std::string> environment;
  double grace = 5;
  double restart_delay = 1;
  Color color = Color::automatic;
  bool dry_run = false;
  Autotuning autotuning = Autotuning::off;
  bool print_slurm = false;
  bool print_kubernetes = false;
  launch::JobOptions job;
  launch::ClusterJob cluster;
  launch::SlurmOptions slurm;
  launch::KubernetesOptions kubernetes;
  std::vector<std::string> volumes;
  std::string memory;
  std::string shm_size;
  std::vector<std::string> program;
};

/// Reads the command line. Returns none after printing the help, if that is
/// asked for. Throws ConfigError.
std::optional<LaunchFlags> parse_launch_flags(const Arguments& arguments);

/// The variables of --env; a bare NAME takes its value from our environment.
launch::Variables chosen_environment(const LaunchFlags& flags);

/// True when `name` is a subcommand of cairn.
bool is_command(std::string_view name);

/// Prints the Slurm script or the Kubernetes manifest that is asked for.
int print_for_scheduler(const LaunchFlags& flags);

} // namespace cairn::cli
