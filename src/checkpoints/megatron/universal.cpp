#include "checkpoints/megatron/universal.h"

#include "checkpoints/deepspeed/universal_files.h"
#include "checkpoints/megatron/layer_files.h"
#include "checkpoints/megatron/names.h"
#include "checkpoints/megatron/optimizer_contents.h"
#include "checkpoints/megatron/pipeline_names.h"
#include "checkpoints/tensors/in_file.h"
#include "checkpoints/tensors/lazy_operations.h"

#include <cairn/base/error.h>
#include <cairn/checkpoints/torch_file.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

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

/// The most rows of padding that a run may have: Megatron's multiples times the
/// tensor ranks stay far below.
constexpr std::int64_t most_padding = 1 << 20;

/// Number of rows of the embedding in the run: DeepSpeed's own converter cuts
/// its padding off.
std::int64_t padded_rows_in(const PythonValue& first) {
  const auto args = first.find("args");
  const auto said = args && args->is(Kind::object)
      ? args->find("padded_vocab_size")
      : std::nullopt;
  return said && said->is(Kind::integer) ? said->integer() : 0;
}

bool is_of_vocabulary(const std::string& name) {
  return name == "language_model.embedding.word_embeddings.weight" ||
      name == "language_model.output_layer.weight";
}

/// A tensor as a run has it that loads the files: DeepSpeed puts zeros where
/// the padding was, in the weights and in the optimizer.
LazyTensor as_loaded(
    const std::string& whole_name,
    const fs::path& file,
    std::int64_t rows) {
  LazyTensor tensor = deepspeed::universal_tensor(file);
  if (!is_of_vocabulary(whole_name) || tensor.shape.empty() ||
      rows <= tensor.shape[0]) {
    return tensor;
  }
  if (rows - tensor.shape[0] > most_padding) {
    throw CheckpointError(
        {.what = "more padding of the vocabulary than any run has",
         .where = file.string(),
         .values = fmt::format(
             "{} rows, and padded_vocab_size {}",
             tensor.shape[0],
             rows)});
  }
  return rows_then_zeros(std::move(tensor), rows);
}

/// True when the file says how queries, keys and values lie in it: then they
/// are those of the whole model, not one block for each tensor rank.
bool has_whole_heads(const std::map<std::string, fs::path>& parameters) {
  for (const auto& [name, place] : parameters) {
    if (name.find(".query_key_value.") != name.npos) {
      const fs::path file = place / "fp32.pt";
      const PythonValue content = read_torch_file(file);
      return content.is(Kind::dict) &&
          content.find("sub_param_shape").has_value();
    }
  }
  return false;
}

} // namespace

bool is_universal(const fs::path& folder) {
  return deepspeed::is_universal(folder);
}

Contents read_universal(const fs::path& folder) {
  Contents contents{.split_is_of_files = false};
  const fs::path first = deepspeed::universal_model_file(folder);
  read_model_states(first, contents);
  const auto parameters = deepspeed::universal_parameters(folder);
  contents.head_blocks = in_file(first, [&] {
    const std::int64_t ranks = tensor_ranks(contents.first);
    expect_joined_gates(contents.first, ranks);
    return has_whole_heads(parameters) ? 1 : ranks;
  });
  const std::int64_t rows = padded_rows_in(contents.first);
  std::set<std::string> given;
  for (const auto& [name, place] : parameters) {
    given.insert(name);
  }
  const auto names = whole_names(given);
  RankTensors& rank = contents.ranks.emplace_back();
  for (const auto& [name, whole] : names) {
    const fs::path file = parameters.at(name) / "fp32.pt";
    const std::string ours = modern_name(whole);
    add_tensor(rank, ours, as_loaded(ours, file, rows), file);
  }
  contents.has_optimizer = true;
  return contents;
}

OptimizerContents read_universal_optimizer(
    const fs::path& folder,
    const Contents& contents) {
  OptimizerContents result;
  const std::int64_t rows = padded_rows_in(contents.first);
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
        const std::string ours = modern_name(whole);
        add_tensor(ranks.front(), ours, as_loaded(ours, file, rows), file);
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
