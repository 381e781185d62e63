#include "checkpoints/megatron/args.h"
#include "checkpoints/megatron/names.h"
#include "checkpoints/megatron/pipeline.h"
#include "checkpoints/megatron/rank_files.h"
#include "checkpoints/megatron/rank_model.h"
#include "checkpoints/megatron/torch_dist.h"
#include "checkpoints/megatron/write_optimizer.h"
#include "checkpoints/megatron/write_torch_dist.h"
#include "checkpoints/tensors/lazy_operations.h"
#include "checkpoints/tensors/make_folder.h"
#include "checkpoints/tensors/named_tensors.h"
#include "checkpoints/tensors/parameter_tensors.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>
#include <cairn/checkpoints/megatron.h>
#include <cairn/checkpoints/torch_file.h>
#include <cairn/model/parameters.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace cairn::checkpoints {

namespace {

namespace fs = std::filesystem;

/// The members of a file's dictionary that stand beside "model".
std::vector<PythonValue::Member> beside_model(
    const PythonValue& args,
    const MegatronWriteOptions& options) {
  std::vector<PythonValue::Member> members{
      {"args", args},
      {"checkpoint_version", PythonValue::real(3)}};
  if (options.iteration) {
    members.emplace_back("iteration", PythonValue::integer(*options.iteration));
  }
  if (options.optimizer) {
    members.emplace_back("opt_param_scheduler", options.optimizer->schedule);
  }
  return members;
}

/// Entries to keep that are not written anew.
bool is_kept(
    const PythonValue::Member& other,
    const MegatronWriteOptions& options) {
  return !options.optimizer ||
      (other.first != "opt_param_scheduler" && other.first != "lr_scheduler");
}

PythonValue rank_file(
    const megatron::RankModel& model,
    const std::map<std::string, megatron::RankModel>& states,
    const PythonValue& args,
    const MegatronWriteOptions& options) {
  std::vector<PythonValue::Member> members = beside_model(args, options);
  members.emplace_back("model", model.dict());
  if (options.optimizer) {
    members.emplace_back(
        "optimizer",
        megatron::rank_optimizer(
            model,
            states,
            *options.optimizer,
            options.split.expert > 1));
  }
  for (const PythonValue::Member& other : options.others) {
    if (is_kept(other, options)) {
      members.push_back(other);
    }
  }
  return PythonValue::dict_of(std::move(members));
}

/// Writes a file for each rank.
void write_ranks(
    const fs::path& target,
    const model::ModelDescription& d,
    const NamedTensors& tensors,
    const PythonValue& args,
    std::int64_t vocabulary,
    const MegatronWriteOptions& options) {
  const MegatronSplit& split = options.split;
  const std::vector<megatron::RankModel> models =
      megatron::models_of_ranks(d, tensors, split, *options.names, vocabulary);
  std::map<std::string, std::vector<megatron::RankModel>> states;
  if (options.optimizer) {
    for (const auto& [kind, values] :
         megatron::states_by_kind(d, *options.optimizer)) {
      states[kind] = megatron::models_of_ranks(
          d,
          values,
          split,
          *options.names,
          vocabulary);
    }
  }
  for (std::size_t i = 0; i < models.size(); ++i) {
    const auto number = static_cast<std::int64_t>(i);
    const megatron::FileRank rank{
        .tensor = number % split.tensor,
        .stage = number / split.tensor % split.pipeline,
        .expert = number / (split.tensor * split.pipeline)};
    const fs::path file = target / megatron::rank_folder(rank, split);
    make_folder(file);
    std::map<std::string, megatron::RankModel> own;
    for (const auto& [kind, ranks] : states) {
      own.emplace(kind, ranks[i]);
    }
    if (options.optimizer && options.optimizer->distributed) {
      write_torch_file(
          file / megatron::flat_optimizer_file,
          split.expert > 1
              ? megatron::two_flat_optimizers(models[i], own, rank.expert == 0)
              : megatron::flat_optimizer(models[i], own));
    }
    write_torch_file(
        file / "model_optim_rng.pt",
        rank_file(models[i], own, args, options));
  }
}

/// Writes a folder without ranks. Those of the entries beside the model that
/// each rank has of its own have other places there.
void write_without_ranks(
    const fs::path& target,
    const model::ModelDescription& d,
    const NamedTensors& tensors,
    const PythonValue& args,
    std::int64_t vocabulary,
    const MegatronWriteOptions& options) {
  if (options.names == MegatronNames::legacy) {
    throw ConfigError(
        {.what = "Megatron's format torch_dist has the names of Megatron-Core",
         .values = "legacy names",
         .remedy = "--megatron-names core, or its format torch"});
  }
  std::vector<PythonValue::Member> common = beside_model(args, options);
  for (const PythonValue::Member& other : options.others) {
    if (other.first != "rng_state" && is_kept(other, options)) {
      common.push_back(other);
    }
  }
  megatron::write_torch_dist(
      target,
      d,
      tensors,
      vocabulary,
      std::move(common),
      options.optimizer,
      options.split.expert > 1);
}

/// The spelling that is asked for, or that of the model. Throws ConfigError for
/// models that we do not write under it.
MegatronNames names_of(
    const model::ModelDescription& d,
    const MegatronWriteOptions& options) {
  const bool gpt = d.family == model::ModelFamily::gpt2 ||
      d.family == model::ModelFamily::llama;
  const bool known = gpt || d.family == model::ModelFamily::bert ||
      d.family == model::ModelFamily::t5;
  const MegatronNames names =
      options.names.value_or(gpt ? MegatronNames::core : MegatronNames::legacy);
  if (names == MegatronNames::legacy && has_experts(d)) {
    throw ConfigError(
        {.what = "Megatron-LM had no experts under its legacy names",
         .remedy = "--megatron-names core"});
  }
  if (names != MegatronNames::legacy && !known) {
    throw ConfigError(
        {.what = "only GPT, Llama, BERT and T5 are written under "
                 "Megatron-Core's names",
         .values = std::string(model::name_of(d.family)),
         .remedy = "--megatron-names legacy"});
  }
  if (names != MegatronNames::legacy && d.family == model::ModelFamily::t5 &&
      options.split.pipeline > 1) {
    throw ConfigError(
        {.what = "Megatron-Core trains a T5 in one pipeline stage alone",
         .values = fmt::format("{} stages", options.split.pipeline),
         .remedy = "leave out --pipeline-model-parallel-size, or add "
                   "--megatron-names legacy for older programs"});
  }
  return names;
}

/// Refuses models whose states have an order that we do not know.
void check_optimizer(
    const model::ModelDescription& d,
    const MegatronWriteOptions& options) {
  if (d.family != model::ModelFamily::gpt2 &&
      d.family != model::ModelFamily::llama &&
      options.names == MegatronNames::legacy) {
    throw ConfigError(
        {.what = "the optimizer states of a BERT or T5 are only written under "
                 "Megatron-Core's names",
         .values = std::string(model::name_of(d.family)),
         .remedy = "--megatron-names core, or --weights-only"});
  }
  if (options.optimizer->distributed &&
      options.names == MegatronNames::legacy) {
    throw ConfigError(
        {.what = "the distributed optimizer is only written under "
                 "Megatron-Core's names",
         .remedy = "--megatron-names core"});
  }
}

} // namespace

void write_megatron(
    const fs::path& folder,
    const model::ModelDescription& d,
    const NamedTensors& tensors,
    const MegatronWriteOptions& given) {
  check(d, "the model to be written");
  MegatronWriteOptions options = given;
  options.split = megatron::checked(d, given.split);
  options.names = names_of(d, options);
  const std::int64_t vocabulary = megatron::padded_rows(d.vocabulary, options);
  NamedTensors ours = parameter_tensors(d, tensors);
  if (options.type) {
    for (auto& [name, tensor] : ours) {
      tensor = as_type(std::move(tensor), *options.type);
    }
  }
  if (options.optimizer) {
    check_optimizer(d, options);
  }
  const PythonValue args =
      megatron::args_of(d, options, vocabulary, ours.front().second.type);
  const fs::path target =
      folder / megatron::iteration_folder(options.iteration);
  if (megatron::has_ranks(target) || megatron::is_torch_dist(target)) {
    throw ConfigError(
        {.what = "the folder holds a checkpoint already",
         .where = target.string(),
         .remedy = "choose another, or empty it first"});
  }
  if (options.format == MegatronFormat::torch_dist) {
    write_without_ranks(target, d, ours, args, vocabulary, options);
  } else {
    write_ranks(target, d, ours, args, vocabulary, options);
  }
  write_file_atomically(
      folder / megatron::tracker_file,
      options.iteration ? fmt::format("{}", *options.iteration)
                        : std::string("release"));
}

} // namespace cairn::checkpoints
