#include "launch/internal/kubernetes_manifest.h"
#include "launch/launched.h"

#include <cairn/base/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <string>
#include <vector>

namespace cairn::launch::kubernetes_manifest_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;

ClusterJob gpt() {
  ClusterJob job;
  job.name = "gpt-13b";
  job.nodes = 2;
  job.gpus_per_node = 8;
  job.image = "registry/cairn:1";
  job.working_dir = "/data";
  job.environment = {{"CUDA_DEVICE_MAX_CONNECTIONS", "1"}};
  job.command = {"pretrain", "gpt", "--lr=1.0e-4"};
  return job;
}

TEST(KubernetesManifest, IsAPyTorchJob) {
  KubernetesOptions options;
  options.name_space = "team";
  options.queue = "a100";
  options.priority = "high";
  options.volumes = {{"megatron", "/data"}};
  options.shm_gib = 64;
  auto job = gpt();
  job.max_restarts = 3;
  const auto manifest = YAML::Load(kubernetes_manifest(job, options));
  EXPECT_EQ(manifest["apiVersion"].as<std::string>(), "kubeflow.org/v1");
  EXPECT_EQ(manifest["kind"].as<std::string>(), "PyTorchJob");
  EXPECT_EQ(manifest["metadata"]["name"].as<std::string>(), "gpt-13b");
  EXPECT_EQ(manifest["metadata"]["namespace"].as<std::string>(), "team");
  const auto policy = manifest["spec"]["runPolicy"];
  EXPECT_EQ(policy["backoffLimit"].as<int>(), 3);
  EXPECT_EQ(policy["schedulingPolicy"]["queue"].as<std::string>(), "a100");
  EXPECT_EQ(
      policy["schedulingPolicy"]["priorityClass"].as<std::string>(),
      "high");
  const auto replicas = manifest["spec"]["pytorchReplicaSpecs"];
  EXPECT_EQ(replicas["Master"]["replicas"].as<int>(), 1);
  EXPECT_EQ(replicas["Worker"]["replicas"].as<int>(), 1);
  for (const char* role : {"Master", "Worker"}) {
    EXPECT_EQ(replicas[role]["restartPolicy"].as<std::string>(), "OnFailure");
    const auto pod = replicas[role]["template"]["spec"];
    const auto container = pod["containers"][0];
    EXPECT_EQ(container["name"].as<std::string>(), "pytorch");
    EXPECT_EQ(container["image"].as<std::string>(), "registry/cairn:1");
    EXPECT_EQ(container["workingDir"].as<std::string>(), "/data");
    EXPECT_THAT(
        container["command"].as<Words>(),
        ElementsAre(
            "cairn",
            "launch",
            "--nnodes=2",
            "--nproc_per_node=8",
            "--node_rank=$(RANK)",
            "--master_addr=$(MASTER_ADDR)",
            "--master_port=$(MASTER_PORT)",
            "pretrain",
            "gpt",
            "--lr=1.0e-4"));
    const auto resources = container["resources"];
    EXPECT_EQ(resources["requests"]["cpu"].as<int>(), 16);
    EXPECT_EQ(resources["limits"]["cpu"].as<int>(), 32);
    EXPECT_EQ(resources["requests"]["memory"].as<std::string>(), "256Gi");
    EXPECT_EQ(resources["limits"]["memory"].as<std::string>(), "512Gi");
    EXPECT_EQ(resources["requests"]["nvidia.com/gpu"].as<int>(), 8);
    EXPECT_EQ(resources["limits"]["nvidia.com/gpu"].as<int>(), 8);
    EXPECT_EQ(
        container["env"][0]["name"].as<std::string>(),
        "CUDA_DEVICE_MAX_CONNECTIONS");
    EXPECT_EQ(container["env"][0]["value"].as<std::string>(), "1");
    EXPECT_EQ(
        container["volumeMounts"][0]["mountPath"].as<std::string>(),
        "/data");
    EXPECT_EQ(
        container["volumeMounts"][1]["mountPath"].as<std::string>(),
        "/dev/shm");
    EXPECT_EQ(
        pod["volumes"][0]["persistentVolumeClaim"]["claimName"]
            .as<std::string>(),
        "megatron");
    EXPECT_EQ(
        pod["volumes"][1]["emptyDir"]["medium"].as<std::string>(),
        "Memory");
    EXPECT_EQ(
        pod["volumes"][1]["emptyDir"]["sizeLimit"].as<std::string>(),
        "64Gi");
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(
          container["volumeMounts"][i]["name"].as<std::string>(),
          pod["volumes"][i]["name"].as<std::string>());
    }
  }
}

TEST(KubernetesManifest, OfOneNodeHasNoWorkers) {
  auto job = gpt();
  job.nodes = 1;
  job.cpus_per_node = 5;
  job.memory_gib_per_node = 20;
  const auto replicas =
      YAML::Load(kubernetes_manifest(job, {}))["spec"]["pytorchReplicaSpecs"];
  EXPECT_FALSE(replicas["Worker"]);
  EXPECT_EQ(replicas["Master"]["restartPolicy"].as<std::string>(), "Never");
  const auto resources =
      replicas["Master"]["template"]["spec"]["containers"][0]["resources"];
  for (const char* side : {"requests", "limits"}) {
    EXPECT_EQ(resources[side]["cpu"].as<int>(), 5);
    EXPECT_EQ(resources[side]["memory"].as<std::string>(), "20Gi");
  }
}

TEST(KubernetesManifest, IsADeepSpeedJob) {
  KubernetesOptions options;
  options.kind = KubernetesKind::deepspeed_job;
  options.queue = "default";
  options.priority = "50";
  options.volumes = {{"megatron", "/t9k/mnt"}};
  auto job = gpt();
  job.command = {"cairn", "pretrain", "gpt"};
  job.max_restarts = 2;
  const auto manifest = YAML::Load(kubernetes_manifest(job, options));
  EXPECT_EQ(
      manifest["apiVersion"].as<std::string>(),
      "batch.tensorstack.dev/v1beta1");
  EXPECT_EQ(manifest["kind"].as<std::string>(), "DeepSpeedJob");
  const auto spec = manifest["spec"];
  EXPECT_FALSE(spec["runMode"]);
  EXPECT_EQ(
      spec["scheduler"]["t9kScheduler"]["queue"].as<std::string>(),
      "default");
  EXPECT_EQ(spec["scheduler"]["t9kScheduler"]["priority"].as<int>(), 50);
  EXPECT_TRUE(spec["config"]["localRank"].as<bool>());
  EXPECT_EQ(spec["config"]["slotsPerWorker"].as<int>(), 8);
  EXPECT_THAT(
      spec["config"]["run"]["exec"].as<Words>(),
      ElementsAre("cairn", "pretrain", "gpt"));
  EXPECT_THAT(
      spec["config"]["otherArgs"].as<Words>(),
      ElementsAre("--max-restarts=2"));
  EXPECT_EQ(spec["worker"]["replicas"].as<int>(), 2);
  EXPECT_EQ(spec["worker"]["restartPolicy"].as<std::string>(), "OnFailure");
  const auto container = spec["worker"]["template"]["spec"]["containers"][0];
  EXPECT_EQ(container["name"].as<std::string>(), "worker");
  EXPECT_EQ(container["resources"]["limits"]["nvidia.com/gpu"].as<int>(), 8);
  EXPECT_FALSE(container["command"]);
}

TEST(KubernetesManifest, CanIdleForDebugging) {
  KubernetesOptions options;
  options.debug = true;
  const auto pytorch = YAML::Load(kubernetes_manifest(gpt(), options));
  EXPECT_THAT(
      pytorch["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]
             ["containers"][0]["command"]
                 .as<Words>(),
      ElementsAre("sleep", "inf"));
  options.kind = KubernetesKind::deepspeed_job;
  const auto deepspeed = YAML::Load(kubernetes_manifest(gpt(), options));
  const auto debug = deepspeed["spec"]["runMode"]["debug"];
  EXPECT_TRUE(debug["enabled"].as<bool>());
  EXPECT_EQ(debug["replicaSpecs"][0]["type"].as<std::string>(), "worker");
  EXPECT_THAT(
      debug["replicaSpecs"][0]["command"].as<Words>(),
      ElementsAre("sleep", "inf"));
}

TEST(KubernetesManifest, KeepsHostileWords) {
  const Words nasty =
      {"it's \"x\"", "a: b # c", "two\nlines", "- no", "{}", "", "\\"};
  KubernetesOptions options;
  options.queue = nasty[1];
  options.priority = nasty[0];
  options.volumes = {{"data", "/a: b # c\n\"d\""}};
  auto job = gpt();
  job.command = nasty;
  job.image = nasty[2];
  job.environment = {{"NASTY", nasty[2]}};
  const auto manifest = YAML::Load(kubernetes_manifest(job, options));
  const auto scheduling = manifest["spec"]["runPolicy"]["schedulingPolicy"];
  EXPECT_EQ(scheduling["queue"].as<std::string>(), nasty[1]);
  EXPECT_EQ(scheduling["priorityClass"].as<std::string>(), nasty[0]);
  const auto container = manifest["spec"]["pytorchReplicaSpecs"]["Master"]
                                 ["template"]["spec"]["containers"][0];
  EXPECT_EQ(container["image"].as<std::string>(), nasty[2]);
  EXPECT_EQ(container["env"][0]["value"].as<std::string>(), nasty[2]);
  EXPECT_EQ(
      container["volumeMounts"][0]["mountPath"].as<std::string>(),
      options.volumes[0].path);
  const auto command = container["command"].as<Words>();
  EXPECT_EQ(Words(command.end() - 7, command.end()), nasty);
}

TEST(KubernetesManifest, LeavesNothingForKubernetesToExpand) {
  auto job = gpt();
  job.command = {"$(HOME)", "$$", "a$"};
  const auto manifest = YAML::Load(kubernetes_manifest(job, {}));
  const auto command = manifest["spec"]["pytorchReplicaSpecs"]["Master"]
                               ["template"]["spec"]["containers"][0]["command"]
                                   .as<Words>();
  EXPECT_THAT(
      Words(command.end() - 3, command.end()),
      ElementsAre("$$(HOME)", "$$$$", "a$$"));
}

TEST(KubernetesManifest, RefusesWhatKubernetesWould) {
  const auto message = [](const ClusterJob& job, KubernetesOptions options) {
    try {
      kubernetes_manifest(job, options);
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("nothing was thrown");
  };
  for (const char* name :
       {"", "A", "-a", "a-", "a_b", "a.b", "a: b # c", "a\nb", "\"a\""}) {
    auto job = gpt();
    job.name = name;
    EXPECT_THAT(message(job, {}), HasSubstr("--job-name")) << name;
    KubernetesOptions options;
    options.volumes = {{name, "/x"}};
    EXPECT_THAT(message(gpt(), options), HasSubstr("--pvc")) << name;
  }
  auto job = gpt();
  job.image = "";
  EXPECT_THAT(message(job, {}), HasSubstr("--container-image"));
  KubernetesOptions options;
  for (const char* path : {"/data/", "/x/../data", "/dev/shm"}) {
    options.volumes = {{"one", "/data"}, {"two", path}};
    EXPECT_THAT(message(gpt(), options), HasSubstr("two is to be mounted at"));
  }
  options.volumes = {{"one", "/data"}, {"two", "/data/two"}};
  EXPECT_EQ(message(gpt(), options), "nothing was thrown");
  options.kind = KubernetesKind::deepspeed_job;
  for (const char* priority : {"high", "-1", "101", "5x", "50 "}) {
    options.priority = priority;
    EXPECT_THAT(message(gpt(), options), HasSubstr("--priority")) << priority;
  }
}

TEST(KubernetesManifest, LeavesRoomForTheNamesOfPods) {
  const auto refused = [](const std::string& name, int nodes) {
    auto job = gpt();
    job.name = name;
    job.nodes = nodes;
    try {
      kubernetes_manifest(job, {});
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), HasSubstr("--job-name"));
      return true;
    }
    return false;
  };
  EXPECT_TRUE(refused("1a", 2)); // Kubeflow: a letter comes first
  EXPECT_FALSE(refused("a1", 2));
  // "-worker-1" and "-worker-127" go behind it, 63 characters in all
  EXPECT_FALSE(refused(std::string(54, 'a'), 2));
  EXPECT_TRUE(refused(std::string(55, 'a'), 2));
  EXPECT_FALSE(refused(std::string(52, 'a'), 128));
  EXPECT_TRUE(refused(std::string(53, 'a'), 128));
}

TEST(KubernetesManifest, IsPrintedByTheProgram) {
  const auto result = fixtures::launch(
      {"--print-kubernetes",
       "--kind=deepspeedjob",
       "--num_nodes=2",
       "--num_gpus=4",
       "--job-name=gpt",
       "--container-image=cairn",
       "--pvc",
       "data:/data",
       "--queue=q",
       "--shm-size=8Gi",
       "--memory=100Gi",
       "--cpus=9",
       "--env=A=b c",
       "tell",
       "gpt"});
  ASSERT_EQ(result.code, 0) << result.err;
  const auto spec = YAML::Load(result.out)["spec"];
  EXPECT_THAT(
      spec["config"]["run"]["exec"].as<Words>(),
      ElementsAre("cairn", "tell", "gpt"));
  const auto pod = spec["worker"]["template"]["spec"];
  const auto container = pod["containers"][0];
  EXPECT_EQ(container["env"][0]["value"].as<std::string>(), "b c");
  EXPECT_EQ(container["resources"]["limits"]["cpu"].as<int>(), 9);
  EXPECT_EQ(
      container["resources"]["requests"]["memory"].as<std::string>(),
      "100Gi");
  EXPECT_EQ(
      pod["volumes"][1]["emptyDir"]["sizeLimit"].as<std::string>(),
      "8Gi");
}

} // namespace
} // namespace cairn::launch::kubernetes_manifest_test
