#include "checkpoints/megatron/experts.h"
#include "checkpoints/megatron/group_kinds.h"
#include "checkpoints/megatron/optimizer_contents.h"
#include "checkpoints/tensors/in_file.h"
#include "checkpoints/tensors/named_tensors.h"
#include "checkpoints/torch/optimizer_state_dict.h"

#include <cairn/base/error.h>
#include <cairn/checkpoints/torch_file.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
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

/// The parameters of one of a file's optimizers, and the states of its rank.
struct RankPlace {
  fs::path file;
  std::vector<OrderedParameter> order;
  std::map<std::string, RankTensors>* states = nullptr; ///< by kind
};

void add_state(
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
      (*place.states)[kind],
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
  const auto ordered =
      in_order_of(adam.at("param_groups").items(), place.order);
  if (!ordered) {
    into.unread = "its parameter groups are not those of matrices and vectors";
    return;
  }
  const std::vector<OrderedParameter>& order = *ordered;
  const auto states = by_number(adam.at("state"));
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto state = states.find(static_cast<std::int64_t>(i));
    if (state == states.end()) {
      into.unread = fmt::format("{} has none", order[i].name);
      return;
    }
    for (const char* kind : kinds) {
      add_state(kind, place, order[i], state->second.at(kind));
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
      add_state(master_kind, place, order[next++], copy);
    }
  }
}

/// Reads the flat buffers of a distributed optimizer.
void read_flat(
    const PythonValue& optimizer,
    const RankPlace& place,
    OptimizerContents& into) {
  std::optional<PythonValue> buffer;
  for (const auto& [key, value] : optimizer.entries()) {
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
            place.order,
            {flat},
            {size},
            place.file,
            (*place.states)[kind])) {
      into.unread = "the parameters do not fill the distributed optimizer's "
                    "flat buffer, which may consist of several buckets";
      return;
    }
  }
}

/// The optimizers of a file: one, or several in a list.
std::vector<PythonValue> optimizers_in(const PythonValue& value) {
  return value.is(Kind::list) ? value.items() : std::vector{value};
}

/// The groups of an optimizer, the number of its updates, and its Adam.
PythonValue noted_adam(
    const PythonValue& optimizer,
    bool first,
    OptimizerContents& into) {
  PythonValue adam = inner(optimizer, "optimizer").value_or(optimizer);
  const auto groups = adam.find("param_groups");
  if (!groups || !groups->is(Kind::list)) {
    throw CheckpointError({.what = "an optimizer without param_groups"});
  }
  if (first) { // experts have the options of the others
    into.groups = groups->items();
    into.loss_scaler = loss_scaler_of(optimizer);
  }
  for (const PythonValue& group : groups->items()) {
    into.steps = std::max(into.steps, step_in(group.find("step")));
  }
  return adam;
}

/// Reads a file's optimizers.
void read_file(
    const FileOrder& file,
    std::map<std::string, RankTensors>& states,
    OptimizerContents& into) {
  const PythonValue content = read_torch_file(file.file);
  const std::vector<PythonValue> optimizers =
      optimizers_in(content.at("optimizer"));
  const fs::path flat_file = file.file.parent_path() / "distrib_optim.pt";
  std::vector<PythonValue> flats;
  if (optimizers.empty() || optimizers.size() > 2) {
    into.unread =
        fmt::format("they belong to {} optimizers", optimizers.size());
    return;
  }
  for (std::size_t i = 0; i < optimizers.size() && into.unread.empty(); ++i) {
    if (!optimizers[i].is(Kind::dict)) {
      into.unread = "an optimizer of a kind that is not known";
      return;
    }
    const PythonValue adam = noted_adam(optimizers[i], i == 0, into);
    RankPlace place{
        .file = file.file,
        // With expert parallel ranks there are two optimizers: the first has
        // all other parameters, the second the experts.
        .order = optimizers.size() == 1 ? file.parameters
                                        : only_experts(file.parameters, i == 1),
        .states = &states};
    if (const auto state = inner(adam, "state"); state && state->size() > 0) {
      read_numbered(optimizers[i], adam, place, into);
      continue;
    }
    if (!fs::exists(flat_file)) {
      into.unread = "neither in the ranks' files nor in distrib_optim.pt";
      return;
    }
    in_file(flat_file, [&] {
      if (flats.empty()) {
        flats = optimizers_in(read_torch_file(flat_file));
      }
      if (flats.size() != optimizers.size()) {
        throw CheckpointError({.what = "another number of optimizers"});
      }
      // Data-parallel ranks share these states, and the file of the first of
      // them has them; in the other files there is None.
      if (!flats[i].is_none()) {
        place.file = flat_file;
        read_flat(flats[i], place, into);
      }
    });
  }
}

} // namespace

OptimizerContents read_rank_optimizer(const Contents& contents) {
  OptimizerContents result;
  // The states by their kind, read[tensor rank][expert parallel rank].
  std::vector<std::vector<std::map<std::string, RankTensors>>> read(
      contents.ranks.size());
  for (const FileOrder& file : contents.files) {
    auto& of_experts = read[file.tensor];
    of_experts.resize(std::max(of_experts.size(), file.expert + 1));
    if (result.unread.empty()) {
      in_file(file.file, [&] {
        read_file(file, of_experts[file.expert], result);
      });
    }
  }
  if (!result.unread.empty()) {
    return result;
  }
  for (std::size_t rank = 0; rank < read.size(); ++rank) {
    for (const char* kind : {"exp_avg", "exp_avg_sq", master_kind}) {
      std::vector<RankTensors> parts;
      for (auto& states : read[rank]) {
        parts.push_back(std::move(states[kind]));
      }
      result.states[kind].push_back(with_stacked_experts(
          std::move(parts),
          experts_in_args(contents.first)));
    }
    if (!rounds_to(result.states[master_kind][rank], contents.ranks[rank])) {
      result.unread = "the fp32 copies are not the parameters, more exact";
    }
  }
  if (result.states[master_kind].front().tensors.empty()) {
    result.states.erase(master_kind);
  }
  return result;
}

} // namespace cairn::checkpoints::megatron
