#include "checkpoints/megatron/universal.h"

#include "checkpoints/deepspeed/universal_files.h"
#include "checkpoints/megatron/layer_files.h"
#include "checkpoints/megatron/names.h"
#include "checkpoints/megatron/optimizer_contents.h"
#include "checkpoints/megatron/pipeline_names.h"
#include "checkpoints/tensors/in_file.h"

#include <cairn/base/error.h>
#include <cairn/checkpoints/torch_file.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>

namespace cairn::checkpoints::megatron {

namespace {

namespace fs = std::filesystem;
using Kind = PythonValue::Kind;

std::int64_t tensor_ranks(const PythonValue& first) {
  const auto sizes = first.find("checkpoint_parallel_dimensions");
  const auto ranks =
      sizes && sizes->is(Kind::dict) ? sizes->find("tp_degree") : std::nullopt;
  if (ranks && ranks->is(Kind::integer)) {
    return ranks->integer();
  }
  const auto args = first.find("args");
  const auto said = args && args->is(Kind::object)
      ? args->find("tensor_model_parallel_size")
      : std::nullopt;
  return said && said->is(Kind::integer) ? said->integer() : 1;
}

/// DeepSpeed joins the ranks' gate and up projections only if the program said
/// that there are two in one weight.
void expect_joined_gates(const PythonValue& first, std::int64_t ranks) {
  const auto args = first.find("args");
  const auto gated =
      args && args->is(Kind::object) ? args->find("swiglu") : std::nullopt;
  const auto info = first.find("universal_checkpoint_info");
  const auto joined = info && info->is(Kind::dict)
      ? info->find("parameter_with_2_sub_params_cat_dim_0")
      : std::nullopt;
  const bool two = gated && gated->is(Kind::boolean) && gated->boolean();
  const bool said = joined && joined->is(Kind::list) && joined->size() > 0;
  if (ranks > 1 && two && !said) {
    throw CheckpointError(
        {.what = "a gated MLP whose ranks were joined as if it had no gate",
         .values = "no parameter_with_2_sub_params_cat_dim_0 in "
                   "universal_checkpoint_info"});
  }
}

} // namespace

bool is_universal(const fs::path& folder) {
  return deepspeed::is_universal(folder);
}

Contents read_universal(const fs::path& folder) {
  Contents contents{.split_is_of_files = false};
  const fs::path first = deepspeed::universal_model_file(folder);
  read_model_states(first, contents);
  contents.head_blocks = in_file(first, [&] {
    const std::int64_t ranks = tensor_ranks(contents.first);
    expect_joined_gates(contents.first, ranks);
    return ranks;
  });
  const auto parameters = deepspeed::universal_parameters(folder);
  std::set<std::string> given;
  for (const auto& [name, place] : parameters) {
    given.insert(name);
  }
  const auto names = whole_names(given);
  RankTensors& rank = contents.ranks.emplace_back();
  for (const auto& [name, whole] : names) {
    const fs::path file = parameters.at(name) / "fp32.pt";
    add_tensor(
        rank,
        modern_name(whole),
        deepspeed::universal_tensor(file),
        file);
  }
  contents.has_optimizer = true;
  return contents;
}

OptimizerContents read_universal_optimizer(const fs::path& folder) {
  OptimizerContents result;
  const auto parameters = deepspeed::universal_parameters(folder);
  std::set<std::string> given;
  for (const auto& [name, place] : parameters) {
    given.insert(name);
  }
  for (const auto& [name, whole] : whole_names(given)) {
    for (const auto& [kind, file] :
         deepspeed::universal_states(parameters.at(name))) {
      if (kind == "step") {
        result.steps = std::max(result.steps, step_in(read_torch_file(file)));
      } else if (kind != "fp32") {
        auto& ranks = result.states[kind];
        ranks.resize(1);
        add_tensor(
            ranks.front(),
            modern_name(whole),
            deepspeed::universal_tensor(file),
            file);
      }
    }
  }
  const fs::path rest = folder / "zero/optimizer_state.pt";
  if (fs::exists(rest)) {
    in_file(rest, [&] {
      const PythonValue said = read_torch_file(rest);
      if (const auto groups = said.find("param_groups")) {
        result.groups = groups->items();
      }
      result.loss_scaler = said.find("loss_scaler").value_or(PythonValue());
    });
  }
  return result;
}

} // namespace cairn::checkpoints::megatron
