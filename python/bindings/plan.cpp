#include "plan.h"

#include "python_module.h"

#include <cairn/checkpoints/huggingface.h>
#include <cairn/config/config.h>
#include <cairn/engine/states_estimate.h>
#include <cairn/plan/cluster.h>
#include <cairn/plan/estimate.h>
#include <cairn/plan/from_config.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace cairn::python {

namespace py = pybind11;

namespace {

py::dict dict_of(const std::vector<std::pair<std::string, double>>& parts) {
  py::dict result;
  for (const auto& [name, value] : parts) {
    result[py::str(name)] = value;
  }
  return result;
}

/// The ZeRO stage, and the bytes of each rank by kind.
std::pair<int, py::dict> states_of(
    const py::object& net,
    const std::string& json,
    std::int64_t ranks,
    bool on_gpu,
    std::int64_t expert_ranks,
    const std::vector<std::string>& experts) {
  config::Config config =
      config::Config::load({.json = json, .world_size = ranks});
  config.flags.distributed.expert_parallel = expert_ranks;
  const StatesEstimate states = estimate_states(
      PythonModule(net, DividedParameters{.experts = experts}),
      config,
      on_gpu);
  py::dict result;
  result["parameters"] = states.parameters;
  result["gradients"] = states.gradients;
  result["optimizer"] = states.optimizer;
  result["buckets"] = states.buckets;
  result["total"] = states.sum();
  return {static_cast<int>(config.deepspeed.zero.stage), result};
}

py::dict cluster_of(const std::string& name_or_file) {
  const plan::Cluster cluster = plan::find_cluster(name_or_file);
  py::dict result;
  result["name"] = cluster.name;
  result["gpu"] = cluster.gpu.name;
  result["gpus_per_node"] = cluster.gpus_per_node;
  result["memory_bytes"] = cluster.gpu.memory_bytes;
  result["context_bytes"] = cluster.gpu.context_bytes;
  return result;
}

/// The run of a model that the planner knows, from Hugging Face's description
/// of it.
py::dict run_of(
    const std::string& huggingface,
    const std::string& json,
    std::int64_t ranks,
    std::int64_t sequence,
    const std::string& cluster) {
  config::Config config =
      config::Config::load({.json = json, .world_size = ranks});
  config.flags.data.seq_length = sequence;
  const plan::Estimate run = plan::estimate(
      plan::training_of(
          checkpoints::model_description_from_huggingface(
              huggingface,
              "plan()"),
          config),
      plan::layout_of(config),
      plan::find_cluster(cluster));
  py::dict memory = dict_of(plan::parts_of(run.memory));
  memory["total"] = run.memory.total();
  py::dict result;
  result["parameters"] = run.parameters;
  result["iteration_seconds"] = run.iteration_seconds;
  result["tokens_per_second_per_gpu"] = run.tokens_per_second_per_gpu;
  result["model_tflops_per_gpu"] = run.model_tflops_per_gpu;
  result["mfu"] = run.mfu;
  result["memory_bytes_per_rank"] = std::move(memory);
  result["fits"] = run.fits;
  result["lacks"] = run.lacks;
  result["seconds"] = dict_of(plan::parts_of(run.time));
  result["limited_by"] = run.limited_by;
  return result;
}

} // namespace

void add_plan(py::module_& module) {
  module.def(
      "plan_states",
      &states_of,
      py::arg("net"),
      py::arg("config"),
      py::arg("ranks"),
      py::arg("on_gpu"),
      py::arg("expert_ranks"),
      py::arg("experts"));
  module.def("find_cluster", &cluster_of, py::arg("name_or_file"));
  module.def(
      "plan_run",
      &run_of,
      py::arg("huggingface"),
      py::arg("config"),
      py::arg("ranks"),
      py::arg("sequence"),
      py::arg("cluster"));
}

} // namespace cairn::python
