#include "launch/internal/kubernetes_manifest.h"

#include "launch/escaped.h"
#include "launch/schedulers/yaml.h"

#include <cairn/base/error.h>

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::launch {
namespace {

/// Throws unless `name` is a valid name of a Kubernetes object (RFC 1123
/// label).
void check_name(std::string_view name, const char* flag) {
  const auto is_edge = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
  };
  if (name.empty() || name.size() > 63 || !is_edge(name.front()) ||
      !is_edge(name.back()) ||
      !std::all_of(name.begin(), name.end(), [&](char c) {
        return is_edge(c) || c == '-';
      })) {
    throw ConfigError(
        {.what = fmt::format("{} is no name for Kubernetes", escaped(name)),
         .where = flag,
         .remedy = "use up to 63 of a-z, 0-9 and '-', with neither end a '-'"});
  }
}

/// Throws unless the pods of the job, and their services, can be named after it
/// (RFC 1035 labels).
void check_job_name(const ClusterJob& job) {
  check_name(job.name, "--job-name");
  const std::size_t room = 63 - fmt::format("-worker-{}", job.nodes - 1).size();
  if ((job.name.front() >= '0' && job.name.front() <= '9') ||
      job.name.size() > room) {
    throw ConfigError(
        {.what = fmt::format(
             "{} is no name for a job whose pods have services",
             escaped(job.name)),
         .where = "--job-name",
         .remedy = fmt::format(
             "begin with a letter, and use at most {} characters",
             room)});
  }
}

/// Escapes `text`: Kubernetes replaces $(NAME) in commands and variables, and
/// $$ stands for $.
std::string literal(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    result += text[i];
    if (text[i] == '$') {
      result += '$';
    }
  }
  return result;
}

Yaml::List list(const std::vector<std::string>& words) {
  return {words.begin(), words.end()};
}

Yaml::Map resources(const ClusterJob& job) {
  const auto amounts = [&](int cpus, int memory_gib) {
    return Yaml::Map{
        {"cpu", cpus},
        {"memory", fmt::format("{}Gi", memory_gib)},
        {"nvidia.com/gpu", job.gpus_per_node}};
  };
  const auto cpus = cpus_of(job);
  const auto memory = memory_gib_of(job);
  return {
      {"requests", amounts(cpus.least, memory.least)},
      {"limits", amounts(cpus.most, memory.most)}};
}

/// The pod that both kinds use. If `command` is empty, the operator decides.
Yaml::Map pod(
    const ClusterJob& job,
    const KubernetesOptions& options,
    const char* container_name,
    Yaml::List command) {
  Yaml::Map container = {{"name", container_name}, {"image", job.image}};
  if (!job.working_dir.empty()) {
    container.emplace_back("workingDir", job.working_dir);
  }
  if (!command.empty()) {
    container.emplace_back("command", std::move(command));
  }
  // IPC_LOCK is for pinned memory, and for RDMA where the network has it.
  container.emplace_back(
      "securityContext",
      Yaml::Map{{"capabilities", Yaml::Map{{"add", Yaml::List{"IPC_LOCK"}}}}});
  if (!job.environment.empty()) {
    Yaml::List variables;
    for (const auto& [name, value] : job.environment) {
      variables.emplace_back(
          Yaml::Map{{"name", name}, {"value", literal(value)}});
    }
    container.emplace_back("env", std::move(variables));
  }
  container.emplace_back("resources", resources(job));

  Yaml::List mounts;
  Yaml::List volumes;
  for (const VolumeMount& volume : options.volumes) {
    const auto name = fmt::format("volume-{}", volumes.size());
    mounts.emplace_back(Yaml::Map{{"mountPath", volume.path}, {"name", name}});
    volumes.emplace_back(Yaml::Map{
        {"name", name},
        {"persistentVolumeClaim", Yaml::Map{{"claimName", volume.claim}}}});
  }
  // By default a pod's /dev/shm has 64 MiB, too little for ranks that share
  // memory.
  Yaml::Map memory = {{"medium", "Memory"}};
  if (options.shm_gib) {
    memory.emplace_back("sizeLimit", fmt::format("{}Gi", *options.shm_gib));
  }
  mounts.emplace_back(Yaml::Map{{"mountPath", "/dev/shm"}, {"name", "dshm"}});
  volumes.emplace_back(
      Yaml::Map{{"name", "dshm"}, {"emptyDir", std::move(memory)}});
  container.emplace_back("volumeMounts", std::move(mounts));
  return {
      {"containers", Yaml::List{std::move(container)}},
      {"volumes", std::move(volumes)}};
}

Yaml::Map metadata(const ClusterJob& job, const KubernetesOptions& options) {
  Yaml::Map result = {{"name", job.name}};
  if (!options.name_space.empty()) {
    result.emplace_back("namespace", options.name_space);
  }
  return result;
}

Yaml::List launch_command(const ClusterJob& job) {
  // The operator sets RANK (the number of the pod), MASTER_ADDR and
  // MASTER_PORT; Kubernetes fills them in here.
  Yaml::List command = {
      "cairn",
      "launch",
      fmt::format("--nnodes={}", job.nodes),
      fmt::format("--nproc_per_node={}", job.gpus_per_node),
      "--node_rank=$(RANK)",
      "--master_addr=$(MASTER_ADDR)",
      job.master_port ? fmt::format("--master_port={}", *job.master_port)
                      : "--master_port=$(MASTER_PORT)"};
  for (const auto* words : {&job.launch_flags, &job.command}) {
    for (const std::string& word : *words) {
      command.emplace_back(literal(word));
    }
  }
  return command;
}

const char* restart_policy(const ClusterJob& job) {
  return job.max_restarts > 0 ? "OnFailure" : "Never";
}

Yaml::Map pytorch_job(const ClusterJob& job, const KubernetesOptions& options) {
  auto command =
      options.debug ? Yaml::List{"sleep", "inf"} : launch_command(job);
  const auto replicas = [&](int count) {
    return Yaml::Map{
        {"replicas", count},
        {"restartPolicy", restart_policy(job)},
        {"template",
         Yaml::Map{{"spec", pod(job, options, "pytorch", command)}}}};
  };
  Yaml::Map specs = {{"Master", replicas(1)}};
  if (job.nodes > 1) {
    specs.emplace_back("Worker", replicas(job.nodes - 1));
  }
  Yaml::Map policy = {
      {"cleanPodPolicy", "Running"},
      {"backoffLimit", job.max_restarts}};
  Yaml::Map scheduling;
  if (!options.queue.empty()) {
    scheduling.emplace_back("queue", options.queue);
  }
  if (!options.priority.empty()) {
    scheduling.emplace_back("priorityClass", options.priority);
  }
  if (!scheduling.empty()) {
    policy.emplace_back("schedulingPolicy", std::move(scheduling));
  }
  return {
      {"apiVersion", "kubeflow.org/v1"},
      {"kind", "PyTorchJob"},
      {"metadata", metadata(job, options)},
      {"spec",
       Yaml::Map{
           {"runPolicy", std::move(policy)},
           {"pytorchReplicaSpecs", std::move(specs)}}}};
}

int priority_number(const std::string& text) {
  int priority = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), priority);
  if (error != std::errc{} || end != text.data() + text.size() ||
      priority < 0 || priority > 100) {
    throw ConfigError(
        {.what = fmt::format("{} is no priority", escaped(text)),
         .where = "--priority",
         .remedy = "a DeepSpeedJob has a number from 0 to 100 there"});
  }
  return priority;
}

Yaml::Map deepspeed_job(
    const ClusterJob& job,
    const KubernetesOptions& options) {
  Yaml::Map spec;
  if (options.debug) {
    spec.emplace_back(
        "runMode",
        Yaml::Map{
            {"debug",
             Yaml::Map{
                 {"enabled", true},
                 {"replicaSpecs",
                  Yaml::List{Yaml::Map{
                      {"type", "worker"},
                      {"skipInitContainer", true},
                      {"command", Yaml::List{"sleep", "inf"}}}}}}}});
  }
  if (!options.queue.empty() || !options.priority.empty()) {
    Yaml::Map scheduler = {
        {"queue", options.queue.empty() ? "default" : options.queue}};
    if (!options.priority.empty()) {
      scheduler.emplace_back("priority", priority_number(options.priority));
    }
    spec.emplace_back(
        "scheduler",
        Yaml::Map{{"t9kScheduler", std::move(scheduler)}});
  }
  Yaml::Map config = {
      {"localRank", true},
      {"slotsPerWorker", job.gpus_per_node},
      {"run", Yaml::Map{{"exec", list(job.command)}}}};
  auto flags = job.launch_flags;
  if (job.max_restarts > 0) {
    flags.push_back(fmt::format("--max-restarts={}", job.max_restarts));
  }
  if (job.master_port) {
    flags.push_back(fmt::format("--master_port={}", *job.master_port));
  }
  if (!flags.empty()) {
    config.emplace_back("otherArgs", list(flags));
  }
  spec.emplace_back("config", std::move(config));
  spec.emplace_back(
      "worker",
      Yaml::Map{
          {"replicas", job.nodes},
          // The operator's default has changed between versions.
          {"restartPolicy", restart_policy(job)},
          {"template", Yaml::Map{{"spec", pod(job, options, "worker", {})}}}});
  return {
      {"apiVersion", "batch.tensorstack.dev/v1beta1"},
      {"kind", "DeepSpeedJob"},
      {"metadata", metadata(job, options)},
      {"spec", std::move(spec)}};
}

} // namespace

std::string kubernetes_manifest(
    const ClusterJob& job,
    const KubernetesOptions& options) {
  check_job_name(job);
  if (!options.name_space.empty()) {
    check_name(options.name_space, "--namespace");
  }
  std::vector<std::string> taken = {"/dev/shm"}; // mounted by pod()
  for (const VolumeMount& volume : options.volumes) {
    check_name(volume.claim, "--pvc");
    auto path = std::filesystem::path(volume.path + "/")
                    .lexically_normal()
                    .parent_path()
                    .string();
    if (std::find(taken.begin(), taken.end(), path) != taken.end()) {
      throw ConfigError(
          {.what = fmt::format(
               "{} is to be mounted at {}, where something else is mounted",
               volume.claim,
               escaped(path)),
           .where = "--pvc",
           .remedy = path == "/dev/shm" ? "--shm-size sets the size of that"
                                        : "choose another path"});
    }
    taken.push_back(std::move(path));
  }
  if (job.image.empty()) {
    throw ConfigError(
        {.what = "Kubernetes runs containers, and no image is named",
         .where = "--container-image",
         .remedy = "build one from the Dockerfile and give its name"});
  }
  return to_yaml(
      options.kind == KubernetesKind::pytorch_job
          ? pytorch_job(job, options)
          : deepspeed_job(job, options));
}

} // namespace cairn::launch
