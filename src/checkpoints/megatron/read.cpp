#include "checkpoints/megatron/deepspeed_experts.h"
#include "checkpoints/megatron/group_kinds.h"
#include "checkpoints/megatron/joiner.h"
#include "checkpoints/megatron/layer_files.h"
#include "checkpoints/megatron/optimizer_contents.h"
#include "checkpoints/megatron/rank_files.h"
#include "checkpoints/megatron/rank_tensors.h"
#include "checkpoints/megatron/torch_dist.h"
#include "checkpoints/megatron/universal.h"
#include "checkpoints/megatron/zero_files.h"
#include "checkpoints/tensors/in_file.h"

#include <ATen/Functions.h>
#include <cairn/base/error.h>
#include <cairn/checkpoints/megatron.h>
#include <cairn/model/parameters.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace cairn::checkpoints {

namespace {

namespace fs = std::filesystem;
using megatron::Contents;
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
void expect_split(const PythonValue& args, const Contents& contents) {
  const auto expect = [&](const char* name, std::int64_t found) {
    const auto said = find_arg(args, name);
    if (said && *said != found) {
      throw CheckpointError(
          {.what = "ranks of the checkpoint are missing, or of another one",
           .where = contents.where.string(),
           .values = fmt::format(
               "{} is {}, and there are files of {}",
               name,
               *said,
               found)});
    }
  };
  if (contents.split_is_of_files) {
    expect("tensor_model_parallel_size", contents.split.tensor);
    expect("pipeline_model_parallel_size", contents.split.pipeline);
    if (megatron::experts_in_args(contents.first) > 1) {
      expect("expert_model_parallel_size", contents.split.expert);
    }
  }
}

/// A value of the args. The rotary base is rope_theta in Megatron-DeepSpeed's.
std::optional<PythonValue> find_in_args(
    const PythonValue& args,
    const std::string& name) {
  auto value = args.find(name);
  if (!value && name == "rotary_base") {
    value = args.find("rope_theta");
  }
  return value;
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
    const auto there = find_in_args(saved, key.text());
    const auto number = [](const PythonValue& one) {
      return one.is(PythonValue::Kind::integer) ||
          one.is(PythonValue::Kind::real);
    };
    const bool compared =
        options.compare_args && there && number(*there) && number(value);
    if (compared && there->real() != value.real()) {
      throw CheckpointError(
          {.what = "the checkpoint says otherwise",
           .where = where.string(),
           .values = fmt::format(
               "{} is {}, not {}",
               key.text(),
               there->real(),
               value.real())});
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
  return changed && asked_for == MegatronHeads::by_version
      ? MegatronHeads::queries_keys_values
      : asked_for;
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

/// A whole number in a dict; nullopt if it is not there.
std::optional<std::int64_t> find_number(
    const PythonValue& dict,
    const char* name) {
  const auto value =
      dict.is(PythonValue::Kind::dict) ? dict.find(name) : std::nullopt;
  return value && value->is(PythonValue::Kind::integer)
      ? std::optional(value->integer())
      : std::nullopt;
}

/// Reads how far the training has come. Under DeepSpeed the engine counts as
/// well.
void read_progress(const PythonValue& content, MegatronCheckpoint& into) {
  into.samples =
      find_arg(into.args, "consumed_train_samples")
          .value_or(find_number(content, "global_samples").value_or(0));
  into.validation_samples = find_arg(into.args, "consumed_valid_samples");
  into.skipped_steps = find_number(content, "skipped_steps").value_or(0);
  for (const char* name : {"opt_param_scheduler", "lr_scheduler"}) {
    const auto schedule = content.find(name);
    const auto counted =
        schedule ? find_number(*schedule, "num_steps") : std::nullopt;
    if (counted) {
      into.schedule_samples = counted;
    }
  }
}

/// The spelling of the names in the files. That of files without ranks is
/// always Transformer Engine's.
MegatronNames names_of(const Contents& contents) {
  const bool fused =
      contents.ranks.front().fused_norms || !contents.split_is_of_files;
  return contents.names == MegatronNames::core_local && fused
      ? MegatronNames::core
      : contents.names;
}

/// The checkpoint without its model.
MegatronCheckpoint without_model(
    const Contents& contents,
    std::optional<std::int64_t> iteration,
    const MegatronReadOptions& options) {
  const PythonValue& first = contents.first;
  MegatronCheckpoint checkpoint{
      .split = contents.split,
      .names = names_of(contents),
      .version = version_of(first, contents.where),
      .iteration = iteration,
      .args = merged_args(
          first.find("args").value_or(PythonValue()),
          options,
          contents.where),
      .others = others_of(first),
      .has_random_states =
          contents.has_random_states || first.find("rng_state").has_value(),
      .has_optimizer = contents.has_optimizer};
  checkpoint.seed = find_arg(checkpoint.args, "seed");
  expect_split(checkpoint.args, contents);
  read_progress(first, checkpoint);
  if (const auto said = first.find("iteration");
      said && said->is(PythonValue::Kind::integer)) {
    checkpoint.iteration = said->integer();
  }
  checkpoint.split.encoder_stages =
      find_arg(checkpoint.args, "pipeline_model_parallel_split_rank")
          .value_or(0);
  return checkpoint;
}

/// Options of a group that its optimizer acts on and, where groups differ in
/// their schedules, the bounds of its learning rate.
PythonValue options_of(const PythonValue& group, bool has_own_rate) {
  std::vector<const char*> keys{
      "lr",
      "betas",
      "eps",
      "weight_decay",
      "bias_correction",
      "amsgrad",
      "maximize",
      "decoupled_weight_decay"};
  if (has_own_rate) {
    keys.insert(keys.end(), {"max_lr", "min_lr"});
  }
  std::vector<PythonValue::Member> members;
  for (const char* key : keys) {
    if (const auto value = group.find(key)) {
      members.emplace_back(key, *value);
    }
  }
  return PythonValue::dict_of(std::move(members));
}

/// Megatron's groups, with the names of their parameters. nullopt for others.
std::optional<std::vector<StoredGroup>> groups_of(
    const std::vector<PythonValue>& saved,
    const model::ModelDescription& d) {
  const auto kinds = megatron::kinds_of(saved);
  if (!kinds) {
    return std::nullopt;
  }
  std::vector<StoredGroup> groups;
  for (std::size_t i = 0; i < saved.size(); ++i) {
    groups.push_back(
        {.options =
             options_of(saved[i], (*kinds)[i].decoupled.value_or(false))});
  }
  for (const model::ModelParameter& parameter : model::model_parameters(d)) {
    const std::string& name = parameter.name;
    const std::size_t dims = parameter.shape.size();
    const bool is_vector = dims == (is_expert(parameter) ? 2 : 1);
    const bool is_embedding_or_output =
        name == "embedding.word.weight" || name == "head.weight";
    const auto kind = std::ranges::find_if(*kinds, [&](const auto& one) {
      return one.has(is_vector, is_embedding_or_output);
    });
    // A single group has all parameters.
    const auto group =
        kind == kinds->end() || kinds->size() == 1 ? 0 : kind - kinds->begin();
    groups[static_cast<std::size_t>(group)].names.push_back(name);
  }
  return groups;
}

/// Reads the optimizer's contents of any layout.
megatron::OptimizerContents read_optimizer_contents(
    const megatron::CheckpointPlace& place,
    const Contents& contents) {
  return megatron::is_torch_dist(place.folder)
      ? megatron::read_torch_dist_optimizer(place.folder, contents)
      : megatron::has_layer_files(place.folder)
      ? megatron::read_layer_optimizer(place.folder, contents)
      : megatron::is_universal(place.folder)
      ? megatron::read_universal_optimizer(place.folder, contents)
      : megatron::has_deepspeed_experts(place.folder)
      ? megatron::read_deepspeed_expert_optimizer(place.folder, contents)
      : megatron::has_zero_optimizer(place.folder)
      ? megatron::read_layer_optimizer(place.folder, contents)
      : megatron::read_rank_optimizer(contents);
}

/// Puts the states together as the parameters are.
void join_optimizer(
    megatron::OptimizerContents optimizer,
    const Contents& like,
    MegatronHeads heads,
    MegatronCheckpoint& checkpoint) {
  const model::ModelDescription& d = checkpoint.description;
  const auto groups = groups_of(optimizer.groups, d);
  if (optimizer.unread.empty() && optimizer.states.empty()) {
    optimizer.unread = "there are none that we know";
  }
  if (optimizer.unread.empty() && !groups) {
    optimizer.unread =
        "its parameter groups are not those of matrices and vectors";
  }
  checkpoint.optimizer_unread = optimizer.unread;
  if (!optimizer.unread.empty()) {
    return;
  }
  const at::Tensor steps =
      at::scalar_tensor(static_cast<float>(optimizer.steps));
  for (auto& [kind, ranks] : optimizer.states) {
    Contents contents{
        .ranks = std::move(ranks),
        .names = like.names,
        .head_blocks = like.head_blocks};
    megatron::Joiner joiner(std::move(contents), d, heads, checkpoint.version);
    const bool master = kind == megatron::master_kind;
    for (const model::ModelParameter& parameter : model::model_parameters(d)) {
      auto& into = master ? checkpoint.masters : checkpoint.optimizer_states;
      into.emplace_back(
          master ? parameter.name : fmt::format("{}/{}", kind, parameter.name),
          joiner.join(parameter));
    }
    joiner.finish();
  }
  for (const model::ModelParameter& parameter : model::model_parameters(d)) {
    checkpoint.optimizer_states.emplace_back(
        "step/" + parameter.name,
        LazyTensor(at::kFloat, {}, [steps] { return steps; }));
  }
  checkpoint.groups = *groups;
  if (checkpoint.iteration && optimizer.steps < *checkpoint.iteration) {
    checkpoint.skipped_steps = *checkpoint.iteration - optimizer.steps;
  }
  checkpoint.loss_scaler = std::move(optimizer.loss_scaler);
}

/// Reads the files of any layout.
Contents read_contents(const megatron::CheckpointPlace& place) {
  Contents contents = megatron::is_torch_dist(place.folder)
      ? megatron::read_torch_dist(place.folder)
      : megatron::has_layer_files(place.folder)
      ? megatron::read_layer_files(place.folder)
      : megatron::is_universal(place.folder)
      ? megatron::read_universal(place.folder)
      : megatron::has_deepspeed_experts(place.folder)
      ? megatron::read_deepspeed_experts(place.folder)
      : megatron::has_stage_3_files(place.folder)
      ? megatron::read_stage_3_files(place.folder)
      : megatron::read_rank_files(megatron::find_rank_files(place));
  megatron::expect_model(contents);
  contents.has_optimizer |= megatron::has_zero_optimizer(place.folder);
  return contents;
}

model::ModelDescription description_of(
    const PythonValue& args,
    const ModelFacts& facts,
    std::optional<std::int64_t> vocabulary,
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
  if (options.keep_padding && facts.padded_vocabulary > 0) {
    d.vocabulary = facts.padded_vocabulary;
  } else if (options.vocabulary || vocabulary) {
    d.vocabulary = options.vocabulary ? *options.vocabulary : *vocabulary;
  }
  check(d, where);
  return d;
}

} // namespace

MegatronCheckpoint read_megatron(
    const fs::path& folder,
    const MegatronReadOptions& options) {
  const megatron::CheckpointPlace place =
      megatron::find_place(folder, options.iteration);
  Contents contents = read_contents(place);
  MegatronCheckpoint checkpoint = in_file(contents.where, [&] {
    return without_model(contents, place.iteration, options);
  });
  const model::ModelDescription& d = checkpoint.description = description_of(
      checkpoint.args,
      megatron::facts_of(contents),
      contents.vocabulary,
      options,
      contents.where.string());
  const MegatronHeads heads = heads_of(checkpoint.args, options.heads);
  if (options.optimizer && contents.has_optimizer) {
    join_optimizer(
        read_optimizer_contents(place, contents),
        contents,
        heads,
        checkpoint);
  }
  megatron::Joiner joiner(std::move(contents), d, heads, checkpoint.version);
  for (const model::ModelParameter& parameter : model::model_parameters(d)) {
    checkpoint.tensors.emplace_back(parameter.name, joiner.join(parameter));
  }
  joiner.finish();
  return checkpoint;
}

} // namespace cairn::checkpoints
