#include "checkpoints/deepspeed/write_plan.h"
#include "checkpoints/tensors/lazy_operations.h"
#include "checkpoints/tensors/named_tensors.h"
#include "checkpoints/torch/optimizer_state_dict.h"

#include <ATen/Functions.h>
#include <cairn/base/error.h>
#include <fmt/format.h>

#include <set>
#include <utility>

namespace cairn::checkpoints::deepspeed {

namespace {

using Members = std::vector<PythonValue::Member>;

PythonValue numbers(const std::vector<std::int64_t>& values) {
  std::vector<PythonValue> items;
  for (const std::int64_t value : values) {
    items.push_back(PythonValue::integer(value));
  }
  return PythonValue::list(std::move(items));
}

/// The states of all parameters in a flat tensor, joined: flat tensors and
/// numbers.
class FlatStates {
 public:
  FlatStates(
      const ZeroFlat& flat,
      const std::map<std::string, NamedTensors>& states) {
    for (const auto& [name, shape] : flat.parameters) {
      for (const auto& [kind, tensor] : states.at(name)) {
        if (!flat_.contains(kind) && !numbers_.contains(kind)) {
          kinds_.push_back(kind);
        }
        if (kind == "step" || (tensor.shape.empty() && !shape.empty())) {
          add_number(kind, name, tensor);
        } else {
          add_tensor(kind, name, shape, tensor);
        }
      }
    }
  }

  PythonValue on_rank(const std::vector<ZeroSegment>& segments) const {
    Members members;
    for (const std::string& kind : kinds_) {
      const auto tensors = flat_.find(kind);
      members.emplace_back(
          kind,
          tensors != flat_.end()
              ? flat_tensor(segments, tensors->second, at::kFloat)
              : PythonValue::tensor(numbers_.at(kind)));
    }
    return PythonValue::dict_of(std::move(members));
  }
  bool empty() const { return kinds_.empty(); }

 private:
  void add_number(
      const std::string& kind,
      const std::string& name,
      const LazyTensor& tensor) {
    const at::Tensor value = tensor.load();
    const auto [there, is_new] = numbers_.emplace(kind, value);
    if (!is_new && !there->second.equal(value)) {
      throw CheckpointError(
          {.what = "parameters of one group differ in a number of theirs",
           .where = name,
           .values = kind,
           .remedy = "ZeRO keeps one for a group: give them other groups"});
    }
  }
  void add_tensor(
      const std::string& kind,
      const std::string& name,
      const Shape& shape,
      const LazyTensor& tensor) {
    if (elements_of(tensor.shape) != elements_of(shape)) {
      throw CheckpointError(
          {.what = "ZeRO cannot keep a state of another size than its "
                   "parameter",
           .where = name,
           .values = kind});
    }
    flat_[kind].emplace(name, as_type(tensor, at::kFloat));
  }

  std::vector<std::string> kinds_;
  std::map<std::string, TensorsByName> flat_;
  std::map<std::string, at::Tensor> numbers_;
};

PythonValue states_on_rank(const WritePlan& plan, std::size_t rank) {
  const auto by_name =
      states_by_parameter(plan.groups, plan.state.optimizer_states);
  std::vector<PythonValue::Entry> states;
  std::vector<std::vector<std::int64_t>> flats_of(plan.groups.size());
  for (std::size_t i = 0; i < plan.flats.size(); ++i) {
    const ZeroFlat& flat = plan.flats[i];
    flats_of[flat.group].push_back(static_cast<std::int64_t>(i));
    const FlatStates own(flat, by_name);
    if (!own.empty()) {
      states.emplace_back(
          PythonValue::integer(static_cast<std::int64_t>(i)),
          own.on_rank(flat.by_rank[rank]));
    }
  }
  std::vector<PythonValue> groups;
  for (std::size_t group = 0; group < plan.groups.size(); ++group) {
    auto entries = plan.groups[group].options.entries();
    entries.emplace_back(PythonValue::text("params"), numbers(flats_of[group]));
    groups.push_back(PythonValue::dict(std::move(entries)));
  }
  return PythonValue::dict_of(
      {{"state", PythonValue::dict(std::move(states))},
       {"param_groups", PythonValue::list(std::move(groups))}});
}

PythonValue weights_on_rank(const WritePlan& plan, std::size_t rank) {
  std::vector<PythonValue> tensors;
  for (const ZeroFlat& flat : plan.flats) {
    auto segments = flat.by_rank[rank];
    // Stages 1 and 2 leave out the padding at the end of the group.
    if (plan.layout.stage < 3 && rank + 1 == flat.by_rank.size() &&
        !segments.empty() && segments.back().name.empty()) {
      segments.pop_back();
    }
    tensors.push_back(flat_tensor(segments, plan.masters, at::kFloat));
  }
  return PythonValue::list(std::move(tensors));
}

/// The places of the parameters in the rank's parts.
PythonValue slice_mappings(const WritePlan& plan, std::size_t rank) {
  std::vector<PythonValue> result;
  for (const ZeroFlat& flat : plan.flats) {
    Members members;
    std::int64_t start = 0;
    for (const ZeroSegment& segment : flat.by_rank[rank]) {
      if (!segment.name.empty()) {
        members.emplace_back(
            segment.name,
            PythonValue::object(
                "deepspeed.utils.tensor_fragment",
                "fragment_address",
                {{"numel", PythonValue::integer(segment.count)},
                 {"start", PythonValue::integer(start)}}));
      }
      start += segment.count;
    }
    result.push_back(PythonValue::dict_of(std::move(members)));
  }
  return PythonValue::list(std::move(result));
}

} // namespace

PythonValue flat_tensor(
    const std::vector<ZeroSegment>& segments,
    const TensorsByName& tensors,
    at::ScalarType type) {
  std::vector<LazyTensor> pieces;
  for (const ZeroSegment& segment : segments) {
    const std::int64_t count = segment.count;
    const auto found = tensors.find(segment.name);
    if (found == tensors.end()) {
      pieces.push_back(
          {type, {count}, [=] { return at::zeros({count}, type); }});
    } else {
      pieces.push_back(
          elements(found->second, segment.begin, segment.begin + count));
    }
  }
  return PythonValue::flat_tensor(type, std::move(pieces));
}

double clip_of(const WritePlan& plan) {
  const auto clip = plan.state.config.find("gradient_clipping");
  const bool number = clip &&
      (clip->is(PythonValue::Kind::real) ||
       clip->is(PythonValue::Kind::integer));
  return number ? clip->real() : 0.0;
}

PythonValue optimizer_shard(const WritePlan& plan, int rank_number) {
  const auto rank = static_cast<std::size_t>(rank_number);
  const int stage = plan.layout.stage;
  const int ranks = plan.layout.ranks;
  Members members{
      {"zero_stage", PythonValue::integer(stage)},
      {"loss_scaler", plan.loss_scaler},
      {"dynamic_loss_scale", plan.loss_scaler.at("dynamic")},
      {"overflow", PythonValue::boolean(false)}};
  if (stage == 3) {
    members.emplace_back("partition_count", PythonValue::integer(ranks));
    members.emplace_back("optimizer_state_dict", states_on_rank(plan, rank));
    members.emplace_back("fp32_flat_groups", weights_on_rank(plan, rank));
  } else {
    std::vector<std::int64_t> paddings;
    for (const ZeroFlat& flat : plan.flats) {
      paddings.push_back(rank_number + 1 == ranks ? flat.padding : 0);
    }
    const std::vector<std::int64_t> counts(plan.flats.size(), ranks);
    members.emplace_back("clip_grad", PythonValue::real(clip_of(plan)));
    members.emplace_back("base_optimizer_state", states_on_rank(plan, rank));
    members.emplace_back(
        "single_partition_of_fp32_groups",
        weights_on_rank(plan, rank));
    members.emplace_back("group_paddings", numbers(paddings));
    members.emplace_back("partition_count", numbers(counts));
    members.emplace_back("ds_version", PythonValue::text(layout_version));
    members.emplace_back("param_slice_mappings", slice_mappings(plan, rank));
  }
  return PythonValue::dict_of(
      {{"optimizer_state_dict", PythonValue::dict_of(std::move(members))},
       {"ds_config", plan.state.config},
       {"ds_version", PythonValue::text(layout_version)}});
}

} // namespace cairn::checkpoints::deepspeed
