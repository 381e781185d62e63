#include "checkpoints/megatron/joiner.h"
#include "checkpoints/megatron/rank_files.h"
#include "checkpoints/megatron/rank_tensors.h"
#include "checkpoints/tensors/in_file.h"

#include <cairn/base/error.h>
#include <cairn/checkpoints/megatron.h>
#include <cairn/model/parameters.h>
#include <fmt/format.h>

#include <utility>

namespace cairn::checkpoints {

namespace {

namespace fs = std::filesystem;
using megatron::ModelFacts;

double version_of(const PythonValue& content, const fs::path& file) {
  const auto found = content.find("checkpoint_version");
  const double version = found && !found->is_none() ? found->real() : 0;
  if (version != 0 && version != 1 && version != 2 && version != 3) {
    throw CheckpointError(
        {.what = "an unknown checkpoint_version",
         .where = file.string(),
         .values = fmt::format("{}", version)});
  }
  return version;
}

/// A whole number in the args; nullopt if it is not there.
std::optional<std::int64_t> find_arg(
    const PythonValue& args,
    const char* name) {
  if (args.is_none()) {
    return std::nullopt;
  }
  const auto value = args.find(name);
  return value && value->is(PythonValue::Kind::integer)
      ? std::optional(value->integer())
      : std::nullopt;
}

/// Compares the files with the split that the args name.
void expect_split(
    const PythonValue& args,
    const megatron::RankFiles& files,
    const fs::path& where) {
  const auto expect = [&](const char* name, std::int64_t found) {
    const auto said = find_arg(args, name);
    if (said && *said != found) {
      throw CheckpointError(
          {.what = "ranks of the checkpoint are missing, or of another one",
           .where = where.string(),
           .values = fmt::format(
               "{} is {}, and there are files of {}",
               name,
               *said,
               found)});
    }
  };
  expect("tensor_model_parallel_size", files.tensor);
  expect("pipeline_model_parallel_size", files.pipeline);
}

/// The file's args, and those of ours that it lacks.
PythonValue merged_args(
    const PythonValue& saved,
    const MegatronReadOptions& options,
    const fs::path& where) {
  const PythonValue& ours = options.args;
  if (saved.is_none() || ours.is_none()) {
    return saved.is_none() ? ours : saved;
  }
  std::vector<PythonValue::Member> members;
  for (const auto& [key, value] : saved.state().entries()) {
    if (key.is(PythonValue::Kind::text)) {
      members.emplace_back(key.text(), value);
    }
  }
  for (const auto& [key, value] : ours.state().entries()) {
    const auto there = saved.find(key.text());
    const bool number = options.compare_args && there &&
        there->is(PythonValue::Kind::integer) &&
        value.is(PythonValue::Kind::integer);
    if (number && there->integer() != value.integer()) {
      throw CheckpointError(
          {.what = "the checkpoint says otherwise",
           .where = where.string(),
           .values = fmt::format(
               "{} is {}, not {}",
               key.text(),
               there->integer(),
               value.integer())});
    }
    if (!there) {
      members.emplace_back(key.text(), value);
    }
  }
  return PythonValue::object("argparse", "Namespace", std::move(members));
}

/// The order of the heads. Megatron-DeepSpeed changed the order and kept the
/// version; the flag that is looked for came with the change.
MegatronHeads heads_of(const PythonValue& args, MegatronHeads asked_for) {
  const bool changed =
      !args.is_none() && args.find("ds_sequence_parallel_fpdt").has_value();
  return changed ? MegatronHeads::queries_keys_values : asked_for;
}

/// Entries that Megatron saves beside the model, the args and the optimizer.
std::vector<PythonValue::Member> others_of(const PythonValue& content) {
  std::vector<PythonValue::Member> others;
  for (const char* name :
       {"opt_param_scheduler",
        "lr_scheduler",
        "rng_state",
        "tokens",
        "num_floating_point_operations_so_far"}) {
    if (const auto value = content.find(name)) {
      others.emplace_back(name, *value);
    }
  }
  return others;
}

/// The checkpoint without its model.
MegatronCheckpoint without_model(
    const PythonValue& first,
    const megatron::RankFiles& files,
    const MegatronReadOptions& options) {
  const fs::path& where = files.paths.front();
  MegatronCheckpoint checkpoint{
      .split = {files.tensor, files.pipeline},
      .version = version_of(first, where),
      .iteration = files.iteration,
      .args = merged_args(
          first.find("args").value_or(PythonValue()),
          options,
          where),
      .others = others_of(first)};
  expect_split(checkpoint.args, files, where);
  if (const auto iteration = first.find("iteration");
      iteration && iteration->is(PythonValue::Kind::integer)) {
    checkpoint.iteration = iteration->integer();
  }
  checkpoint.split.encoder_stages =
      find_arg(checkpoint.args, "pipeline_model_parallel_split_rank")
          .value_or(0);
  return checkpoint;
}

model::ModelDescription description_of(
    const PythonValue& args,
    const ModelFacts& facts,
    const MegatronReadOptions& options,
    const std::string& where) {
  model::ModelDescription d;
  if (options.description) {
    d = *options.description;
    d.padded_vocabulary = facts.padded_vocabulary;
  } else if (args.is_none()) {
    throw CheckpointError(
        {.what = "the file has no args, so the model is unknown",
         .where = where,
         .remedy = "say what it is: --num-layers, --hidden-size, "
                   "--num-attention-heads, --max-position-embeddings"});
  } else {
    d = in_file(where, [&] {
      return megatron::description_from_args(args, facts, where);
    });
  }
  d.vocabulary = options.vocabulary.value_or(d.vocabulary);
  check(d, where);
  return d;
}

} // namespace

MegatronCheckpoint read_megatron(
    const fs::path& folder,
    const MegatronReadOptions& options) {
  const megatron::RankFiles files =
      megatron::find_rank_files(folder, options.iteration);
  megatron::Contents contents = megatron::read_contents(files);
  const fs::path& where = files.paths.front();
  MegatronCheckpoint checkpoint = in_file(where, [&] {
    return without_model(contents.first, files, options);
  });
  const model::ModelDescription& d = checkpoint.description = description_of(
      checkpoint.args,
      megatron::facts_of(contents.ranks.front(), files.tensor),
      options,
      where.string());
  megatron::Joiner joiner(
      std::move(contents.ranks),
      d,
      heads_of(checkpoint.args, options.heads),
      checkpoint.version);
  for (const model::ModelParameter& parameter : model::model_parameters(d)) {
    checkpoint.tensors.emplace_back(parameter.name, joiner.join(parameter));
  }
  joiner.finish();
  return checkpoint;
}

} // namespace cairn::checkpoints
