#include "cli/launch/launch_options.h"

#include "cli/program/help_formatter.h"

#include <cairn/base/error.h>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

namespace cairn::cli {
namespace {

using namespace cairn::launch;

constexpr const char* scheduler_group = "For a cluster's scheduler";
constexpr const char* slurm_group = "For Slurm";
constexpr const char* kubernetes_group = "For Kubernetes";

/// "--num_gpus,--num-gpus" for `--num_gpus`; further names the same way.
std::string both_spellings(std::initializer_list<std::string> names) {
  std::vector<std::string> spellings;
  for (std::string name : names) {
    for (const char separator : {'_', '-'}) {
      const auto start = name.find_first_not_of('-');
      std::replace_if(
          name.begin() + static_cast<std::ptrdiff_t>(start),
          name.end(),
          [](char c) { return c == '_' || c == '-'; },
          separator);
      if (std::find(spellings.begin(), spellings.end(), name) ==
          spellings.end()) {
        spellings.push_back(name);
      }
    }
  }
  return fmt::format("{}", fmt::join(spellings, ","));
}

[[noreturn]] void refuse_value(
    std::string_view flag,
    const std::string& value,
    const std::string& expected) {
  throw ConfigError(
      {.what = fmt::format("{} is \"{}\"", flag, value),
       .remedy = fmt::format("{} is expected", expected)});
}

/// A check of a value that fails with our words instead of CLI11's.
template <typename Number>
auto number_check(std::string flag, Number least, Number most) {
  return [=](const std::string& text) {
    Number value{};
    const auto* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    // The test is not (value < least), so that a NaN is refused too.
    if (error != std::errc{} || stop != end ||
        !(value >= least && value <= most)) {
      const bool whole = std::is_integral_v<Number>;
      const bool bounded = most < std::numeric_limits<Number>::max();
      const bool any = least <= std::numeric_limits<Number>::lowest();
      refuse_value(
          flag,
          text,
          (whole ? "a whole number" : "a number") +
              (any           ? std::string()
                   : bounded ? fmt::format(" from {} to {}", least, most)
                             : fmt::format(" of at least {}", least)));
    }
    return std::string();
  };
}

auto whole_number(std::string flag, int least) {
  return number_check(std::move(flag), least, std::numeric_limits<int>::max());
}

/// Sets `chosen` to the value of a word.
template <typename Choice>
auto choose(
    std::string flag,
    std::vector<std::pair<std::string, Choice>> choices,
    Choice& chosen) {
  return [=, &chosen](const std::string& text) {
    std::string words;
    for (const auto& [word, choice] : choices) {
      if (word == CLI::detail::to_lower(text)) {
        chosen = choice;
        return;
      }
      words += (words.empty() ? "" : " or ") + word;
    }
    refuse_value(flag, text, words);
  };
}

void add_where_flags(CLI::App& app, LaunchFlags& flags) {
  const auto* group = "Where";
  const auto option = [&](auto names, auto& value, const char* help) {
    auto* added =
        app.add_option(both_spellings(names), value, help)->group(group);
    if constexpr (std::is_same_v<
                      std::decay_t<decltype(value)>,
                      std::optional<int>>) {
      // The range depends on the other flags, so it is checked later.
      added->check(
          whole_number(*names.begin(), std::numeric_limits<int>::lowest()));
    }
  };
  using Names = std::initializer_list<std::string>;
  option(
      Names{"--num_gpus", "--nproc_per_node", "--num_accelerators"},
      flags.world.ranks_per_node,
      "ranks per node; all its GPUs when left out, one rank without GPUs");
  option(
      Names{"--num_nodes", "--nnodes"},
      flags.world.nodes,
      "use the first N hosts of the host file; or how many nodes there are");
  option(
      Names{"-H", "--hostfile"},
      flags.world.hostfile,
      "hosts as `worker-1 slots=4`, one a line [/job/hostfile if it exists]");
  option(
      Names{"-i", "--include"},
      flags.world.include,
      "use only these hosts and slots: worker-0@worker-1:0,2");
  option(
      Names{"-e", "--exclude"},
      flags.world.exclude,
      "use all but these hosts and slots");
  option(
      Names{"--master_addr"},
      flags.world.master_addr,
      "where ranks meet [the first host]");
  option(
      Names{"--master_port"},
      flags.world.master_port,
      "at which port [a free one; 29500 with several hosts]");
  option(
      Names{"--node_rank"},
      flags.world.node_rank,
      "start only the ranks of this node; its launchers are started by hand, "
      "one on every node");
  app.add_flag(
         both_spellings({"--no_ssh"}),
         flags.no_ssh,
         "as DeepSpeed has it; --node_rank alone says the same")
      ->group(group);
  app.add_flag(
         both_spellings({"--share_gpu"}),
         flags.world.share_gpu,
         "for trying out layouts, not for speed: all --num_gpus ranks use one "
         "GPU of this machine")
      ->group(group);
  option(
      Names{"--ssh_command"},
      flags.ssh_command,
      "how to reach the other hosts [ssh, never asking for a password]");
}

void add_how_flags(CLI::App& app, LaunchFlags& flags) {
  const auto* group = "How";
  app.add_option(
         "--env",
         flags.environment,
         "set NAME=VALUE for every rank, or pass NAME on to other hosts; may "
         "be repeated")
      ->group(group)
      ->allow_extra_args(false);
  app.add_flag(
         both_spellings({"--no_local_rank"}),
         flags.no_local_rank,
         "do not add --local_rank=N to the program's arguments")
      ->group(group);
  app.add_flag(
         both_spellings({"--no_python"}),
         flags.no_python,
         "run PROGRAM as it is, also if its name ends in .py; without this, "
         "python3 runs such a program")
      ->group(group);
  app.add_flag(
         both_spellings({"--bind_cores_to_rank"}),
         flags.bind_cores,
         "give each rank cores of its own")
      ->group(group);
  app.add_option(
         both_spellings({"--bind_core_list"}),
         flags.core_list,
         "share out only these cores: 1,3-5,7")
      ->group(group);
  app.add_option(
         both_spellings({"--max_restarts"}),
         flags.job.max_restarts,
         "start the job again so many times when a rank fails")
      ->group(group)
      ->check(whole_number("--max_restarts", 0));
  app.add_option(
         both_spellings({"--log_dir"}),
         flags.job.log_dir,
         "also write what rank N writes to rank_N.log in this folder")
      ->group(group);
  app.add_option(
         "--grace",
         flags.grace,
         "seconds from asking a rank to stop to killing it [5]")
      ->group(group)
      ->check(number_check("--grace", 0.0, 3600.0));
  app.add_option_function<std::string>(
         "--color",
         choose<Color>(
             "--color",
             {{"auto", Color::automatic},
              {"always", Color::always},
              {"never", Color::never}},
             flags.color),
         "colour the labels: auto, always, never")
      ->group(group);
  app.add_flag(
         both_spellings({"--dry_run"}),
         flags.dry_run,
         "print what would be started, and start nothing")
      ->group(group);
  app.add_option_function<std::string>(
         "--autotuning",
         choose<Autotuning>(
             "--autotuning",
             {{"tune", Autotuning::tune}, {"run", Autotuning::run}},
             flags.autotuning),
         "tune: find the fastest settings of `pretrain`, as cairn tune does; "
         "run: and then train with them")
      ->group(group);
  // Flags for launchers that launchers start, and for tests.
  app.add_flag("--node-launcher", flags.job.is_node_launcher)->group("");
  app.add_flag("--secret-on-stdin", flags.secret_on_stdin)->group("");
  app.add_option("--world", flags.all_hosts)->group("");
  app.add_option("--restart-delay", flags.restart_delay)
      ->group("")
      ->check(number_check("--restart-delay", 0.0, 3600.0));
}

void add_scheduler_flags(CLI::App& app, LaunchFlags& flags) {
  const auto option = [&](const char* group,
                          const char* name,
                          auto& value,
                          const char* help) {
    return app.add_option(both_spellings({name}), value, help)->group(group);
  };
  const auto* any = scheduler_group;
  app.add_flag(
         both_spellings({"--print_slurm"}),
         flags.print_slurm,
         "print a script for sbatch and start nothing")
      ->group(any);
  app.add_flag(
         both_spellings({"--print_kubernetes"}),
         flags.print_kubernetes,
         "print a manifest for kubectl and start nothing")
      ->group(any);
  option(any, "--job_name", flags.cluster.name, "name of the job [cairn]");
  option(any, "--cpus", flags.cluster.cpus_per_node, "per node [2-4 per GPU]")
      ->check(whole_number("--cpus", 1));
  option(
      any,
      "--memory",
      flags.memory,
      "per node [8-16Gi for one GPU, 32-64Gi for each of several]");
  option(
      any,
      "--container_image",
      flags.cluster.image,
      "image to run in (Slurm: with pyxis)");
  option(any, "--workdir", flags.cluster.working_dir, "folder to run in");
  option(
      any,
      "--pvc",
      flags.volumes,
      "CLAIM:/path, a volume claim to mount (Slurm: FOLDER:/path into the "
      "container); may be repeated")
      ->allow_extra_args(false);

  option(slurm_group, "--time", flags.slurm.time, "limit, as 2-00:00:00");
  option(slurm_group, "--partition", flags.slurm.partition, "partition");
  option(slurm_group, "--account", flags.slurm.account, "account");

  const auto* kubernetes = kubernetes_group;
  app.add_option_function<std::string>(
         "--kind",
         choose<KubernetesKind>(
             "--kind",
             {{"pytorchjob", KubernetesKind::pytorch_job},
              {"deepspeedjob", KubernetesKind::deepspeed_job}},
             flags.kubernetes.kind),
         "pytorchjob [default] or deepspeedjob")
      ->group(kubernetes);
  option(kubernetes, "--namespace", flags.kubernetes.name_space, "namespace");
  option(
      kubernetes,
      "--queue",
      flags.kubernetes.queue,
      "queue of the scheduler");
  option(
      kubernetes,
      "--priority",
      flags.kubernetes.priority,
      "priority class; a number for a deepspeedjob");
  option(kubernetes, "--shm_size", flags.shm_size, "size of /dev/shm");
  app.add_flag(
         "--debug",
         flags.kubernetes.debug,
         "pods that only wait, to enter with kubectl exec")
      ->group(kubernetes);
}

} // namespace

void add_launch_options(CLI::App& app, LaunchFlags& flags) {
  app.formatter(std::make_shared<HelpFormatter>(
      "cairn launch [FLAGS…] PROGRAM [ARGUMENTS…]\n\n"
      "Words may be joined by - instead of _ in every flag."));
  add_where_flags(app, flags);
  add_how_flags(app, flags);
  add_scheduler_flags(app, flags);
}

void check_purpose(const CLI::App& app, const LaunchFlags& flags) {
  const bool prints = flags.print_slurm || flags.print_kubernetes;
  if (flags.print_slurm && flags.print_kubernetes) {
    throw ConfigError(
        {.what = "--print_slurm and --print_kubernetes exclude each other"});
  }
  if (prints && flags.world.share_gpu) {
    throw ConfigError(
        {.what = fmt::format(
             "--share_gpu with {}",
             flags.print_slurm ? "--print_slurm" : "--print_kubernetes"),
         .remedy = "leave it out: it is for trying out layouts on this "
                   "machine, and a job of the scheduler has a GPU per rank"});
  }
  constexpr std::array only_when_starting = {
      "--hostfile",
      "--include",
      "--exclude",
      "--master_addr",
      "--node_rank",
      "--no_ssh",
      "--ssh_command",
      "--color",
      "--dry_run"};
  const auto given = [&](const CLI::Option* option) {
    return option->count() > 0;
  };
  for (const char* name : only_when_starting) {
    if (prints && given(app.get_option(name))) {
      throw ConfigError(
          {.what = fmt::format("{} has no place in what is printed", name),
           .remedy = "the scheduler chooses the hosts; leave it out"});
    }
  }
  for (const CLI::Option* option : app.get_options()) {
    const auto& group = option->get_group();
    const auto refuse = [&](const char* partner) {
      throw ConfigError(
          {.what = fmt::format("{} says nothing here", option->get_name()),
           .remedy = fmt::format("it goes with {}", partner)});
    };
    if (!given(option)) {
      continue;
    }
    if (group == slurm_group && !flags.print_slurm) {
      refuse("--print_slurm");
    } else if (group == kubernetes_group && !flags.print_kubernetes) {
      refuse("--print_kubernetes");
    } else if (group == scheduler_group && !prints) {
      refuse("--print_slurm or --print_kubernetes");
    }
  }
}

} // namespace cairn::cli
