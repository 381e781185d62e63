#include "checkpoints/megatron/optimizer_contents.h"
#include "checkpoints/tensors/in_file.h"
#include "checkpoints/tensors/named_tensors.h"
#include "checkpoints/torch/optimizer_state_dict.h"

#include <cairn/base/error.h>
#include <cairn/checkpoints/torch_file.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace cairn::checkpoints::megatron {

namespace {

namespace fs = std::filesystem;
using Kind = PythonValue::Kind;

constexpr std::array<const char*, 2> kinds{"exp_avg", "exp_avg_sq"};

/// A value of a dict that is a dict itself.
std::optional<PythonValue> inner(const PythonValue& dict, const char* key) {
  const auto found = dict.is(Kind::dict) ? dict.find(key) : std::nullopt;
  return found && found->is(Kind::dict) ? found : std::nullopt;
}

/// The parameters in the optimizer's order: matrices, which decay, and vectors.
std::vector<OrderedParameter> matrices_first(
    std::vector<OrderedParameter> order) {
  std::ranges::stable_partition(order, [](const OrderedParameter& one) {
    return one.shape.size() > 1;
  });
  return order;
}

/// True when the groups are those of the matrices and of the vectors.
bool are_usual_groups(
    const std::vector<PythonValue>& groups,
    const std::vector<OrderedParameter>& order) {
  const auto matrices = std::ranges::count_if(order, [](const auto& one) {
    return one.shape.size() > 1;
  });
  std::int64_t next = 0;
  for (const PythonValue& group : groups) {
    const auto numbers = group.find("params");
    if (!numbers || (next != 0 && next != matrices)) {
      return false;
    }
    for (const PythonValue& number : numbers->items()) {
      if (!number.is(Kind::integer) || number.integer() != next++) {
        return false;
      }
    }
  }
  return groups.size() <= 2 && next == static_cast<std::int64_t>(order.size());
}

/// One rank's part of the states: of all stages of a tensor rank.
struct RankPlace {
  std::size_t rank = 0;
  fs::path file;
  const std::vector<OrderedParameter>* order = nullptr;
};

void add_state(
    OptimizerContents& into,
    const char* kind,
    const RankPlace& place,
    const OrderedParameter& parameter,
    const PythonValue& tensor) {
  LazyTensor value = lazy_tensor(tensor);
  if (value.shape != parameter.shape) {
    throw CheckpointError(
        {.what = fmt::format("{} of another shape than its parameter", kind),
         .where = place.file.string(),
         .values = parameter.name});
  }
  add_tensor(
      into.states[kind][place.rank],
      parameter.name,
      std::move(value),
      place.file);
}

/// Reads states that are numbered.
void read_numbered(
    const PythonValue& optimizer,
    const PythonValue& adam,
    const RankPlace& place,
    OptimizerContents& into) {
  const std::vector<OrderedParameter> order = matrices_first(*place.order);
  if (!are_usual_groups(into.groups, order)) {
    into.unread = "its parameter groups are not those of matrices and vectors";
    return;
  }
  const auto states = by_number(adam.at("state"));
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto state = states.find(static_cast<std::int64_t>(i));
    if (state == states.end()) {
      into.unread = fmt::format("{} has none", order[i].name);
      return;
    }
    for (const char* kind : kinds) {
      add_state(into, kind, place, order[i], state->second.at(kind));
    }
    into.steps = std::max(into.steps, step_in(state->second.find("step")));
  }
  const auto copies = optimizer.find("fp32_from_fp16_params");
  if (!copies) {
    return;
  }
  std::size_t next = 0;
  for (const PythonValue& group : copies->items()) {
    for (const PythonValue& copy : group.items()) {
      if (next == order.size()) {
        throw CheckpointError(
            {.what = "more fp32 copies than parameters",
             .where = place.file.string()});
      }
      add_state(into, master_kind, place, order[next++], copy);
    }
  }
}

/// Reads the flat buffers of the distributed optimizer.
void read_flat(const RankPlace& place, OptimizerContents& into) {
  const PythonValue file = read_torch_file(place.file);
  std::optional<PythonValue> buffer;
  for (const auto& [key, value] : file.entries()) {
    if (key.is(Kind::integer) && value.is(Kind::dict)) {
      if (buffer || value.size() != 1) {
        into.unread = "several flat buffers of one rank";
        return;
      }
      buffer = value.entries().front().second;
    }
  }
  if (!buffer) {
    throw CheckpointError(
        {.what = "no flat buffer of a distributed optimizer"});
  }
  const auto said = buffer->find("numel_unpadded");
  for (const auto& [kind, key] :
       {std::pair{"exp_avg", "exp_avg"},
        {"exp_avg_sq", "exp_avg_sq"},
        {master_kind, "param"}}) {
    const LazyTensor flat = lazy_tensor(buffer->at(key));
    const std::int64_t size = said ? said->integer() : flat.rows();
    if (!add_flat(
            *place.order,
            {flat},
            {size},
            place.file,
            into.states[kind][place.rank])) {
      into.unread = "the parameters do not fill the distributed optimizer's "
                    "flat buffer, which may consist of several buckets";
      return;
    }
  }
}

void read_file(const fs::path& path, RankPlace place, OptimizerContents& into) {
  const PythonValue file = read_torch_file(path);
  const auto optimizer = inner(file, "optimizer");
  if (!optimizer) {
    into.unread = "they belong to several optimizers, as those of experts do";
    return;
  }
  const PythonValue adam = inner(*optimizer, "optimizer").value_or(*optimizer);
  const auto groups = adam.find("param_groups");
  if (!groups || !groups->is(Kind::list)) {
    throw CheckpointError({.what = "an optimizer without param_groups"});
  }
  into.groups = groups->items();
  into.loss_scaler = loss_scaler_of(*optimizer);
  for (const PythonValue& group : into.groups) {
    into.steps = std::max(into.steps, step_in(group.find("step")));
  }
  const fs::path flat = path.parent_path() / "distrib_optim.pt";
  if (const auto state = inner(adam, "state"); state && state->size() > 0) {
    place.file = path;
    read_numbered(*optimizer, adam, place, into);
  } else if (fs::exists(flat)) {
    place.file = flat;
    in_file(flat, [&] { read_flat(place, into); });
  } else {
    into.unread = "neither in the ranks' files nor in distrib_optim.pt";
  }
}

} // namespace

OptimizerContents read_rank_optimizer(
    const RankFiles& files,
    const Contents& contents) {
  OptimizerContents result;
  const std::size_t ranks = contents.ranks.size();
  for (const char* kind : {"exp_avg", "exp_avg_sq", master_kind}) {
    result.states[kind].resize(ranks);
  }
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const auto& stages = contents.ranks[rank].stages;
    for (std::size_t stage = 0; stage < stages.size(); ++stage) {
      if (result.unread.empty()) {
        const fs::path& path = files.at(
            static_cast<std::int64_t>(stage),
            static_cast<std::int64_t>(rank));
        in_file(path, [&] {
          read_file(path, {.rank = rank, .order = &stages[stage]}, result);
        });
      }
    }
    if (result.unread.empty() &&
        !rounds_to(result.states[master_kind][rank], contents.ranks[rank])) {
      result.unread = "the fp32 copies are not the parameters, more exact";
    }
  }
  if (result.states[master_kind].front().tensors.empty()) {
    result.states.erase(master_kind);
  }
  return result;
}

} // namespace cairn::checkpoints::megatron
