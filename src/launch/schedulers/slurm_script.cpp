#include "launch/internal/slurm_script.h"

#include "launch/escaped.h"
#include "launch/internal/shell_quote.h"

#include <cairn/base/error.h>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <string_view>
#include <vector>

namespace cairn::launch {
namespace {

constexpr std::string_view opening = R"(#!/bin/bash
# Submit with: sbatch THIS_FILE
#
# One launcher per node, and not one task per GPU, so that ranks have the same
# environment, labelled output, core binding and report of the first failure as
# everywhere else, and nothing of them is left on a node.
)";

constexpr std::string_view rendezvous = R"(
set -euo pipefail
mapfile -t hosts < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
export MASTER_ADDR=${hosts[0]}
CAIRN_JOB_SECRET=$(od -An -v -tx1 -N32 /dev/urandom | tr -d ' \n')
export CAIRN_JOB_SECRET
)";

/// A directive with its value. sbatch reads quotes and backslashes as a shell
/// does, but a value ends at the end of the line.
std::string directive(const char* name, std::string_view value) {
  if (value.find_first_of(std::string_view("\n\r\0", 3)) !=
      std::string_view::npos) {
    throw ConfigError(
        {.what = fmt::format("{} has a line break", escaped(value)),
         .where = fmt::format("--{}", name),
         .remedy = "an #SBATCH line cannot hold it"});
  }
  constexpr std::string_view special = " \t#\"'\\";
  std::string written(value);
  if (value.find_first_of(special) != std::string_view::npos) {
    written = "\"";
    for (const char c : value) {
      if (c == '"' || c == '\\') {
        written += '\\';
      }
      written += c;
    }
    written += '"';
  }
  return fmt::format("#SBATCH --{}={}\n", name, written);
}

bool is_number(std::string_view text) {
  return !text.empty() && text.size() < 10 &&
      text.find_first_not_of("0123456789") == std::string_view::npos;
}

/// True for M, M:S, H:M:S, D-H, D-H:M and D-H:M:S.
bool is_time_limit(std::string_view text) {
  if (const auto dash = text.find('-'); dash != std::string_view::npos) {
    if (!is_number(text.substr(0, dash))) {
      return false;
    }
    text.remove_prefix(dash + 1);
  }
  for (int parts = 1; parts <= 3; ++parts) {
    const auto colon = text.find(':');
    if (!is_number(text.substr(0, colon))) {
      return false;
    }
    if (colon == std::string_view::npos) {
      return true;
    }
    text.remove_prefix(colon + 1);
  }
  return false;
}

std::string directives(const ClusterJob& job, const SlurmOptions& options) {
  auto text = directive("job-name", job.name);
  const auto number = [&](const char* name, int value) {
    text += directive(name, fmt::format("{}", value));
  };
  number("nodes", job.nodes);
  number("ntasks-per-node", 1);
  number("gpus-per-node", job.gpus_per_node);
  number("cpus-per-task", cpus_of(job).most);
  text += directive("mem", fmt::format("{}G", memory_gib_of(job).most));
  const auto folder = job.image.empty() ? job.working_dir : std::string();
  for (const auto& [name, value] :
       {std::pair("chdir", folder),
        std::pair("time", options.time),
        std::pair("partition", options.partition),
        std::pair("account", options.account)}) {
    if (!value.empty()) {
      text += directive(name, value);
    }
  }
  return text + directive("output", "%x-%j.out");
}

std::vector<std::string> srun(
    const ClusterJob& job,
    const SlurmOptions& options) {
  std::vector<std::string> words = {
      "srun",
      "--kill-on-bad-exit=1",
      // Since Slurm 22.05 srun does not take this from the directive.
      fmt::format("--cpus-per-task={}", cpus_of(job).most)};
  if (!job.image.empty()) { // for pyxis
    words.push_back(fmt::format("--container-image={}", job.image));
    if (!job.working_dir.empty()) {
      words.push_back(fmt::format("--container-workdir={}", job.working_dir));
    }
    std::vector<std::string> mounts;
    for (const VolumeMount& mount : options.mounts) {
      mounts.push_back(fmt::format("{}:{}", mount.claim, mount.path));
    }
    if (!mounts.empty()) {
      words.push_back(
          fmt::format("--container-mounts={}", fmt::join(mounts, ",")));
    }
  }
  return words;
}

} // namespace

std::string slurm_script(const ClusterJob& job, const SlurmOptions& options) {
  if (job.image.empty() && !options.mounts.empty()) {
    throw ConfigError(
        {.what = "a folder is to be mounted, and there is no container",
         .where = "--pvc",
         .remedy = "give --container_image, or leave the mount out"});
  }
  if (!options.time.empty() && !is_time_limit(options.time)) {
    throw ConfigError(
        {.what = fmt::format("{} is no time limit", escaped(options.time)),
         .where = "--time",
         .remedy = "write minutes, minutes:seconds, hours:minutes:seconds, "
                   "days-hours, days-hours:minutes or "
                   "days-hours:minutes:seconds"});
  }
  std::string text(opening);
  text += directives(job, options);
  text += rendezvous;
  text += job.master_port
      ? fmt::format("export MASTER_PORT={}\n", *job.master_port)
      : std::string("# Jobs that share a node must not share a port.\n"
                    "export MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))\n");
  for (const auto& [name, value] : job.environment) {
    text += fmt::format("export {}={}\n", name, shell_quote(value));
  }

  std::vector<std::string> launcher = {
      options.launcher,
      fmt::format("--nnodes={}", job.nodes),
      fmt::format("--nproc_per_node={}", job.gpus_per_node)};
  launcher.insert(
      launcher.end(),
      job.launch_flags.begin(),
      job.launch_flags.end());
  launcher.insert(launcher.end(), job.command.begin(), job.command.end());
  // SLURM_NODEID differs between nodes, so a shell on the node must expand it.
  const auto step = fmt::format(
      "{} \\\n  bash -c 'exec \"$0\" launch --node_rank=\"$SLURM_NODEID\" "
      "--master_addr=\"$MASTER_ADDR\" --master_port=\"$MASTER_PORT\" \"$@\"' "
      "\\\n  {}",
      shell_join(srun(job, options)),
      shell_join(launcher));
  if (job.max_restarts == 0) {
    return text + "\n" + step + "\n";
  }
  // On a restart all nodes start again together.
  return text +
      fmt::format(
             "\nfor ((restart = 0;; ++restart)); do\n"
             "export CAIRN_RESTART_COUNT=$restart\n"
             "code=0\n"
             "{} || code=$?\n"
             "if ((code == 0 || restart == {})); then\n"
             "  exit \"$code\"\n"
             "fi\n"
             "delay=$((restart < 6 ? 1 << restart : 60))\n"
             "echo \"exit code $code: restart $((restart + 1)) of {} in "
             "$delay s\" >&2\n"
             "sleep \"$delay\"\n"
             "done\n",
             step,
             job.max_restarts,
             job.max_restarts);
}

} // namespace cairn::launch
