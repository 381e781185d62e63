#include "checkpoints/deepspeed/write_plan.h"
#include "checkpoints/tensors/named_tensors.h"
#include "checkpoints/torch/optimizer_state_dict.h"

#include <ATen/Functions.h>
#include <cairn/base/error.h>

#include <set>
#include <utility>

namespace cairn::checkpoints::deepspeed {

namespace {

using Members = std::vector<PythonValue::Member>;

PythonValue size_of(const Shape& shape) {
  std::vector<PythonValue> sizes;
  for (const std::int64_t size : shape) {
    sizes.push_back(PythonValue::integer(size));
  }
  return PythonValue::call(
      "torch",
      "Size",
      {PythonValue::tuple(std::move(sizes))});
}

/// The module's dict. At stage 3 the parameters are elsewhere, and only their
/// names are here.
PythonValue module_of(const WritePlan& plan) {
  const at::ScalarType type = plan.layout.type;
  Members members;
  std::map<std::string, PythonValue> known;
  const auto add = [&](const std::string& name, PythonValue value) {
    known.emplace(name, value);
    members.emplace_back(name, std::move(value));
  };
  for (const NamedTensors* tensors :
       {&plan.state.parameters, &plan.state.frozen}) {
    for (const auto& [name, tensor] : *tensors) {
      add(name,
          plan.layout.stage == 3 ? PythonValue::tensor(at::empty({0}, type))
                                 : PythonValue::tensor(as_type(tensor, type)));
    }
  }
  for (const auto& [name, tensor] : plan.state.buffers) {
    add(name, PythonValue::tensor(tensor));
  }
  for (const auto& [name, holder] : plan.state.ties) {
    const auto there = known.find(holder);
    if (there == known.end()) {
      throw CheckpointError(
          {.what = "a name is tied to one that is not there",
           .values = name + " to " + holder});
    }
    members.emplace_back(name, there->second);
  }
  return PythonValue::dict_of(std::move(members));
}

PythonValue param_shapes(const WritePlan& plan) {
  std::vector<PythonValue> result;
  for (const ZeroFlat& flat : plan.flats) {
    Members members;
    for (const auto& [name, shape] : flat.parameters) {
      members.emplace_back(name, size_of(shape));
    }
    result.push_back(PythonValue::dict_of(std::move(members)));
  }
  return PythonValue::list(std::move(result));
}

PythonValue frozen_shapes(const WritePlan& plan) {
  Members members;
  for (const auto& [name, tensor] : plan.state.frozen) {
    members.emplace_back(name, size_of(tensor.shape));
  }
  return PythonValue::dict_of(std::move(members));
}

PythonValue frozen_fragments(const WritePlan& plan, int rank) {
  const at::ScalarType type = plan.layout.type;
  Members members;
  for (const auto& [name, tensor] : plan.state.frozen) {
    const LazyTensor cast = as_type(tensor, type);
    members.emplace_back(
        name,
        plan.layout.stage == 3 ? flat_tensor(
                                     part_of(
                                         name,
                                         elements_of(tensor.shape),
                                         rank,
                                         plan.layout.ranks),
                                     {{name, cast}},
                                     type)
                               : PythonValue::tensor(cast));
  }
  return PythonValue::dict_of(std::move(members));
}

/// The optimizer of stage 0: torch's own in fp32, otherwise with DeepSpeed's
/// 16-bit one around it.
PythonValue whole_optimizer(const WritePlan& plan) {
  const PythonValue inner =
      optimizer_state_dict(plan.groups, plan.state.optimizer_states);
  if (plan.layout.type == at::kFloat) {
    return inner;
  }
  std::vector<PythonValue> fp32_groups;
  for (const StoredGroup& group : plan.groups) {
    std::vector<PythonValue> tensors;
    for (const std::string& name : group.names) {
      tensors.push_back(PythonValue::tensor(plan.masters.at(name)));
    }
    fp32_groups.push_back(PythonValue::list(std::move(tensors)));
  }
  const PythonValue& scaler = plan.loss_scaler;
  const bool dynamic = scaler.at("dynamic").boolean();
  Members members{
      {"dynamic_loss_scale", PythonValue::boolean(dynamic)},
      {"cur_scale", scaler.at("cur_scale")},
      {"cur_iter",
       dynamic ? scaler.at("cur_iter")
               : PythonValue::integer(plan.state.global_steps)}};
  if (dynamic) {
    for (const char* key :
         {"last_overflow_iter", "scale_factor", "scale_window"}) {
      members.emplace_back(key, scaler.at(key));
    }
  }
  members.emplace_back("optimizer_state_dict", inner);
  members.emplace_back(
      "fp32_groups",
      PythonValue::list(std::move(fp32_groups)));
  return PythonValue::dict_of(std::move(members));
}

} // namespace

PythonValue model_states(const WritePlan& plan, int rank) {
  const DeepSpeedState& state = plan.state;
  const bool zero = plan.layout.stage > 0;
  const bool frozen = plan.layout.stage > 1;
  std::vector<PythonValue> buffer_names;
  for (const auto& [name, tensor] : state.buffers) {
    buffer_names.push_back(PythonValue::text(name));
  }
  Members shared;
  for (const auto& [name, holder] : state.ties) {
    shared.emplace_back(name, PythonValue::text(holder));
  }
  const PythonValue none;
  Members members{
      {"module", plan.rank.module ? *plan.rank.module : module_of(plan)},
      {"buffer_names", PythonValue::list(std::move(buffer_names))},
      {"optimizer", zero ? none : whole_optimizer(plan)},
      {"param_shapes", zero ? param_shapes(plan) : none},
      {"frozen_param_shapes", frozen ? frozen_shapes(plan) : none},
      {"shared_params", zero ? PythonValue::dict_of(std::move(shared)) : none},
      {"frozen_param_fragments", frozen ? frozen_fragments(plan, rank) : none},
      {"lr_scheduler", state.lr_scheduler},
      {"data_sampler", none},
      {"random_ltd", none},
      {"sparse_tensor_module_names", PythonValue::call("builtins", "set", {})},
      {"skipped_steps", PythonValue::integer(state.skipped_steps)},
      {"global_steps", PythonValue::integer(state.global_steps)},
      {"global_samples", PythonValue::integer(state.global_samples)},
      {"dp_world_size", PythonValue::integer(plan.layout.ranks)},
      {"mp_world_size", PythonValue::integer(plan.rank.count)},
      {"checkpoint_parallel_dimensions",
       PythonValue::dict_of(
           {{"pp_degree",
             PythonValue::integer(plan.rank.count / plan.rank.tensor)},
            {"tp_degree", PythonValue::integer(plan.rank.tensor)}})},
      {"ds_config", state.config},
      {"ds_version", PythonValue::text(layout_version)}};
  std::set<std::string> taken;
  for (const auto& [key, value] : members) {
    taken.insert(key);
  }
  for (const auto& [key, value] : state.client_state.entries()) {
    if (taken.contains(key.text())) {
      throw CheckpointError(
          {.what = "DeepSpeed uses a name of the client state for itself",
           .values = key.text()});
    }
    members.emplace_back(key.text(), value);
  }
  return PythonValue::dict_of(std::move(members));
}

} // namespace cairn::checkpoints::deepspeed
