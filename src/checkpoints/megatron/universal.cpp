#include "checkpoints/megatron/universal.h"

#include "checkpoints/deepspeed/universal_files.h"
#include "checkpoints/megatron/layer_files.h"
#include "checkpoints/megatron/names.h"
#include "checkpoints/megatron/pipeline_names.h"
#include "checkpoints/tensors/in_file.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace cairn::checkpoints::megatron {

namespace {

namespace fs = std::filesystem;
using Kind = PythonValue::Kind;

/// A parameter of a pipeline: "2.mlp.dense_4h_to_h.bias".
struct Numbered {
  std::int64_t piece = 0;
  std::string name;
};

std::optional<Numbered> numbered(std::string_view name) {
  // The embedding of a model with a tied head belongs to two pieces.
  constexpr std::string_view tied = "tied_modules.embed.";
  if (name.starts_with(tied)) {
    return Numbered{-1, std::string(name.substr(tied.size()))};
  }
  Numbered result;
  const char* const end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data(), end, result.piece);
  if (error != std::errc() || result.piece < 0 || rest == end || *rest != '.') {
    return std::nullopt;
  }
  result.name.assign(rest + 1, end);
  return result;
}

/// Names in the whole model; those that are no pipeline's stay.
std::map<std::string, std::string> whole_names(
    const std::map<std::string, fs::path>& parameters) {
  std::map<std::int64_t, std::set<std::string>> inside;
  for (const auto& [name, folder] : parameters) {
    if (const auto part = numbered(name)) {
      inside[part->piece].insert(part->name);
    }
  }
  const PipelineNames pieces(inside);
  std::map<std::string, std::string> names;
  for (const auto& [name, folder] : parameters) {
    const auto part = numbered(name);
    const auto whole = part ? pieces.whole(part->piece, part->name) : name;
    if (whole) {
      names.emplace(name, modern_name(*whole));
    }
  }
  return names;
}

std::int64_t tensor_ranks(const PythonValue& first) {
  const auto sizes = first.find("checkpoint_parallel_dimensions");
  const auto ranks = sizes && sizes->is(Kind::dict) ? sizes->find("tp_degree")
                                                    : std::nullopt;
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
  const auto gated = args && args->is(Kind::object) ? args->find("swiglu")
                                                    : std::nullopt;
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
  const auto names = in_file(folder, [&] { return whole_names(parameters); });
  RankTensors& rank = contents.ranks.emplace_back();
  for (const auto& [name, whole] : names) {
    const fs::path file = parameters.at(name) / "fp32.pt";
    add_tensor(rank, whole, deepspeed::universal_tensor(file), file);
  }
  contents.has_optimizer = true;
  return contents;
}

} // namespace cairn::checkpoints::megatron
