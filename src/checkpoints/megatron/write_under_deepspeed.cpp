#include "checkpoints/megatron/write_under_deepspeed.h"

#include "checkpoints/deepspeed/write_plan.h"
#include "checkpoints/deepspeed/write_universal.h"
#include "checkpoints/internal/head_rows.h"
#include "checkpoints/megatron/args.h"
#include "checkpoints/megatron/names.h"
#include "checkpoints/megatron/pipeline.h"
#include "checkpoints/megatron/rank_files.h"
#include "checkpoints/megatron/rank_model.h"
#include "checkpoints/megatron/write_optimizer.h"
#include "checkpoints/tensors/named_tensors.h"
#include "checkpoints/tensors/parameter_tensors.h"

#include <ATen/Functions.h>
#include <cairn/base/error.h>
#include <cairn/base/file.h>
#include <cairn/checkpoints/torch_file.h>
#include <cairn/model/description.h>
#include <cairn/model/parameters.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::checkpoints::megatron {

namespace {

namespace fs = std::filesystem;
using Members = std::vector<PythonValue::Member>;

constexpr std::string_view embedding_path = "language_model/embedding/";
constexpr std::string_view position_path =
    "language_model/embedding/position_embeddings/weight";
constexpr std::string_view tied_embedding = "tied_modules.embed.";

/// Everything that the functions below share.
struct Writing {
  const model::ModelDescription& d;
  const MegatronWriteOptions& options;
  const DeepSpeedForm& form;
  std::int64_t vocabulary = 0; ///< padded
  /// Number of rows of the embedding in the files. Universal ones have no
  /// padding: DeepSpeed adds what a run needs.
  std::int64_t rows = 0;
  at::ScalarType type = at::kFloat;
};

/// The name that DeepSpeed's engine has of a tensor of a stage: with a pipeline
/// the number of its piece of the model stands in front. The embedding is piece
/// 1, the layers follow, then the last norm and the head.
std::string engine_name(
    const Writing& w,
    const std::string& path,
    std::int64_t stage) {
  if (!w.form.pipeline) {
    std::string name = path;
    std::ranges::replace(name, '/', '.');
    return name;
  }
  if (path == tied_head_path(MegatronNames::legacy)) {
    return fmt::format("{}word_embeddings.weight", tied_embedding);
  }
  std::string dotted = path;
  std::ranges::replace(dotted, '/', '.');
  if (path.starts_with(embedding_path)) {
    return fmt::format(
        "{}{}",
        w.d.tied_head ? tied_embedding : "1.",
        dotted.substr(embedding_path.size()));
  }
  const std::int64_t each = w.d.layers / w.options.split.pipeline;
  if (const auto layer = layer_name(dotted)) {
    return fmt::format("{}{}", 2 + stage * each + layer->layer, layer->rest);
  }
  const bool head = dotted == "language_model.output_layer.weight";
  return head
      ? fmt::format("{}.lm_head.weight", 3 + w.d.layers)
      : fmt::format("{}{}", 2 + w.d.layers, dotted.substr(dotted.rfind('.')));
}

/// Queries, keys and values of a rank in the order of the files.
LazyTensor in_their_order(
    const Writing& w,
    const std::string& path,
    LazyTensor tensor) {
  if (w.form.grouped_heads || path.find(".query_key_value.") == path.npos) {
    return tensor;
  }
  return heads_apart(
      std::move(tensor),
      query_key_value_rows(w.d),
      w.d.key_value_heads / w.options.split.tensor);
}

/// The last stage has a copy of the whole embedding as its first module, not
/// one of the words alone as its last.
void copy_embedding(
    const MegatronSplit& split,
    std::vector<NamedTensors>& ranks) {
  for (std::int64_t rank = 0; rank < split.tensor; ++rank) {
    const NamedTensors& first = ranks[static_cast<std::size_t>(rank)];
    NamedTensors& last = ranks[static_cast<std::size_t>(
        (split.pipeline - 1) * split.tensor + rank)];
    std::rotate(last.begin(), last.end() - 1, last.end());
    const auto positions = std::ranges::find(
        first,
        position_path,
        &NamedTensors::value_type::first);
    if (positions != first.end()) {
      last.insert(last.begin() + 1, *positions);
    }
  }
}

/// The tensors of each model-parallel rank, in the order of its modules, under
/// Megatron's paths.
std::vector<NamedTensors> tensors_of_ranks(
    const Writing& w,
    const NamedTensors& tensors) {
  const MegatronSplit& split = w.options.split;
  std::vector<NamedTensors> ranks;
  for (const RankModel& model :
       models_of_ranks(w.d, tensors, split, MegatronNames::legacy, w.rows)) {
    NamedTensors& rank = ranks.emplace_back();
    for (auto& [path, tensor] : model.tensors()) {
      rank.emplace_back(path, in_their_order(w, path, std::move(tensor)));
    }
  }
  if (split.pipeline > 1 && w.d.tied_head) {
    copy_embedding(split, ranks);
  }
  return ranks;
}

NamedTensors under_engine_names(
    const Writing& w,
    const NamedTensors& tensors,
    std::int64_t stage,
    const std::string& prefix) {
  NamedTensors result;
  for (const auto& [path, tensor] : tensors) {
    result.emplace_back(prefix + engine_name(w, path, stage), tensor);
  }
  return result;
}

/// The two groups of Megatron-DeepSpeed: matrices, which decay, and vectors.
std::vector<StoredGroup> groups_of_rank(
    const NamedTensors& named,
    const std::optional<MegatronOptimizer>& optimizer) {
  std::vector<StoredGroup> groups;
  for (const bool decays : {true, false}) {
    StoredGroup group;
    for (const auto& [name, tensor] : named) {
      if ((tensor.shape.size() > 1) == decays) {
        group.names.push_back(name);
      }
    }
    std::vector<PythonValue::Entry> options;
    if (optimizer) {
      options = optimizer->options.entries();
      std::erase_if(options, [&](const PythonValue::Entry& entry) {
        return !entry.first.is(PythonValue::Kind::text) ||
            entry.first.text() == "name" || entry.first.text() == "wd_mult" ||
            entry.first.text() == "lr_mult" ||
            (!decays && entry.first.text() == "weight_decay");
      });
    }
    const auto add = [&](const char* name, PythonValue value) {
      options.emplace_back(PythonValue::text(name), std::move(value));
    };
    add("name",
        PythonValue::text(decays ? "wd_no_scale_lr" : "no_wd_no_scale_lr"));
    add("wd_mult", PythonValue::real(decays ? 1 : 0));
    add("lr_mult", PythonValue::real(1));
    if (!decays) {
      add("weight_decay", PythonValue::real(0));
    }
    group.options = PythonValue::dict(std::move(options));
    groups.push_back(std::move(group));
  }
  return groups;
}

/// Nested dicts, as Megatron's modules give them; at stage 3 only the names are
/// there.
PythonValue nested_module(const Writing& w, const NamedTensors& tensors) {
  RankModel model;
  for (const auto& [path, tensor] : tensors) {
    const at::ScalarType type = w.type;
    model.add(
        path,
        w.form.stage == 3
            ? LazyTensor(type, {0}, [type] { return at::empty({0}, type); })
            : as_type(tensor, type));
  }
  return model.dict();
}

PythonValue texts(std::vector<std::string> values) {
  std::vector<PythonValue> items;
  for (std::string& value : values) {
    items.push_back(PythonValue::text(std::move(value)));
  }
  return PythonValue::list(std::move(items));
}

/// The patterns by which DeepSpeed's ds_to_universal.py joins the ranks, as
/// Megatron-DeepSpeed saves them.
PythonValue universal_info(const Writing& w) {
  const bool pipe = w.form.pipeline;
  const bool tied = w.d.tied_head;
  const std::string layer =
      pipe ? R"(\d+.)" : R"(language_model.encoder.layers.\d+.)";
  std::vector<std::string> vocabulary;
  if (!pipe) {
    vocabulary = {"language_model.embedding.word_embeddings.weight"};
    if (!tied) {
      vocabulary.emplace_back("language_model.output_layer.weight");
    }
  } else if (tied) {
    vocabulary = {"tied_modules.embed.word_embeddings.weight"};
  } else {
    vocabulary = {R"(\d+.word_embeddings.weight)", R"(\d+.lm_head.weight)"};
  }
  const bool positions = w.d.position == model::PositionKind::learned;
  const std::string position_name = !pipe
      ? "language_model.embedding.position_embeddings.weight"
      : tied ? "tied_modules.embed.position_embeddings.weight"
             : R"(\d+.position_embeddings.weight)";
  Members info{
      {"universal_checkpoint_version", PythonValue::real(0.2)},
      {"original_vocab_size", PythonValue::integer(w.d.vocabulary)},
      {"padded_vocab_size", PythonValue::integer(w.vocabulary)},
      {"vocabulary_parameter_patterns", texts(vocabulary)}};
  if (pipe) {
    std::vector<std::string> copied;
    if (tied) {
      copied = vocabulary;
      if (positions) {
        copied.push_back(position_name);
      }
    }
    info.emplace_back(
        "pipeline_replicated_parameter_patterns",
        texts(std::move(copied)));
  }
  if (w.options.split.tensor > 1) {
    std::vector<std::string> whole{
        layer + "input_layernorm.weight",
        layer + "post_attention_layernorm.weight",
        pipe ? R"(\d+.weight)"
             : "language_model.encoder.final_layernorm.weight"};
    if (positions) {
      whole.push_back(position_name);
    }
    if (w.d.norm == model::NormKind::layer_norm) {
      whole.push_back(layer + "input_layernorm.bias");
      whole.push_back(layer + "post_attention_layernorm.bias");
      whole.emplace_back(
          pipe ? R"(\d+.bias)" : "language_model.encoder.final_layernorm.bias");
    }
    if (w.d.mlp_bias) {
      whole.push_back(layer + "self_attention.dense.bias");
      whole.push_back(layer + "mlp.dense_4h_to_h.bias");
    }
    info.emplace_back("tp_replicated_parameter_patterns", texts(whole));
    info.emplace_back(
        "parameter_with_row_parallelism_patterns",
        texts(
            {layer + "mlp.dense_4h_to_h.weight",
             layer + "self_attention.dense.weight"}));
  }
  std::vector<std::string> halves;
  if (w.d.gated) {
    halves.push_back(layer + "mlp.dense_h_to_4h.weight");
    if (w.d.mlp_bias) {
      halves.push_back(layer + "mlp.dense_h_to_4h.bias");
    }
  }
  info.emplace_back("parameter_with_2_sub_params_cat_dim_0", texts(halves));
  return PythonValue::dict_of(std::move(info));
}

/// True for a value that Megatron-DeepSpeed can load: args of another Megatron
/// have classes that it lacks.
bool is_plain(const PythonValue& value) {
  using Kind = PythonValue::Kind;
  switch (value.kind()) {
    case Kind::none:
    case Kind::boolean:
    case Kind::integer:
    case Kind::real:
    case Kind::text:
      return true;
    case Kind::global:
      return value.type_name().starts_with("torch.");
    default:
      return false;
  }
}

/// The values that Megatron-DeepSpeed saves beside DeepSpeed's own.
PythonValue client_state_of(const Writing& w) {
  const PythonValue args = args_of(w.d, w.options, w.vocabulary, w.type);
  std::vector<PythonValue::Member> kept;
  for (const auto& [key, value] : args.state().entries()) {
    if (is_plain(value)) {
      kept.emplace_back(key.text(), value);
    }
  }
  if (!w.form.grouped_heads) {
    // By this argument readers know the order of queries, keys and values.
    kept.emplace_back("ds_sequence_parallel_fpdt", PythonValue::boolean(false));
  }
  return PythonValue::dict_of(
      {{"universal_checkpoint_info", universal_info(w)},
       {"args", PythonValue::object("argparse", "Namespace", std::move(kept))},
       {"checkpoint_version", PythonValue::real(3)},
       {"iteration", PythonValue::integer(w.options.iteration.value_or(0))}});
}

/// The state of Megatron's schedule with the keys that Megatron-DeepSpeed asks
/// for.
PythonValue schedule_of(const Writing& w) {
  if (!w.options.optimizer) {
    return {};
  }
  std::vector<PythonValue::Entry> entries =
      w.options.optimizer->schedule.entries();
  for (const char* name : {"lr_warmup_tokens", "lr_decay_tokens"}) {
    if (!w.options.optimizer->schedule.find(name)) {
      entries.emplace_back(PythonValue::text(name), PythonValue());
    }
  }
  return PythonValue::dict(std::move(entries));
}

using Kinds = std::map<std::string, std::vector<NamedTensors>>;

/// The content of the files of one model-parallel rank.
DeepSpeedState state_of_rank(
    const Writing& w,
    const DeepSpeedState& counters,
    const NamedTensors& weights,
    const Kinds& kinds,
    std::size_t rank) {
  const auto stage = static_cast<std::int64_t>(rank) / w.options.split.tensor;
  DeepSpeedState state = counters;
  state.parameters = under_engine_names(w, weights, stage, "");
  for (const auto& [kind, ranks] : kinds) {
    for (auto& named : under_engine_names(w, ranks[rank], stage, kind + "/")) {
      state.optimizer_states.push_back(std::move(named));
    }
  }
  if (w.options.optimizer) {
    const at::Tensor steps =
        at::scalar_tensor(static_cast<float>(w.options.optimizer->steps));
    for (const auto& [name, tensor] : state.parameters) {
      state.optimizer_states.emplace_back(
          "step/" + name,
          LazyTensor(at::kFloat, {}, [steps] { return steps.clone(); }));
    }
  }
  state.groups = groups_of_rank(state.parameters, w.options.optimizer);
  std::erase_if(state.groups, [](const StoredGroup& group) {
    return group.names.empty();
  });
  state.lr_scheduler = schedule_of(w);
  state.client_state = client_state_of(w);
  return state;
}

/// Writes the file of each layer of a stage.
void write_layers(
    const Writing& w,
    const fs::path& place,
    const NamedTensors& named,
    std::int64_t stage,
    std::int64_t rank) {
  std::map<std::int64_t, Members> layers;
  for (const auto& [name, tensor] : named) {
    std::int64_t number = 1;
    std::string inside;
    if (name.starts_with(tied_embedding)) {
      if (stage > 0) {
        continue; // a copy
      }
      inside = name.substr(tied_embedding.size());
    } else {
      const auto dot = name.find('.');
      number = std::stoll(name.substr(0, dot));
      inside = name.substr(dot + 1);
    }
    layers[number].emplace_back(
        inside,
        PythonValue::tensor(as_type(tensor, w.type)));
  }
  for (auto& [number, members] : layers) {
    write_torch_file(
        place /
            fmt::format(
                "layer_{:02}-model_{:02}-model_states.pt",
                number,
                rank),
        PythonValue::dict_of(std::move(members)));
  }
}

/// A SubparamShape of DeepSpeed's: the rows of queries, keys and values, which
/// it cuts each by itself.
PythonValue three_parts(const Writing& w, bool bias) {
  const auto row = [&](std::int64_t heads) {
    return PythonValue::integer(heads * w.d.head_size);
  };
  std::vector<PythonValue> shape{PythonValue::tuple(
      {row(w.d.heads), row(w.d.key_value_heads), row(w.d.key_value_heads)})};
  if (!bias) {
    shape.push_back(PythonValue::integer(w.d.hidden));
  }
  return PythonValue::object(
      "deepspeed.checkpoint.universal_checkpoint",
      "SubparamShape",
      {{"patterns", PythonValue::list({})},
       {"shape", PythonValue::tuple(std::move(shape))},
       {"partition_dim", PythonValue::integer(0)}});
}

/// The members of the parameters' files by which DeepSpeed cuts them for any
/// number of tensor ranks.
deepspeed::UniversalMembers universal_members(
    const Writing& w,
    const NamedTensors& named) {
  deepspeed::UniversalMembers result;
  for (const auto& [name, tensor] : named) {
    Members& members = result[name];
    const bool bias = name.ends_with(".bias");
    const bool columns = name.ends_with(".dense.weight") ||
        name.ends_with("dense_4h_to_h.weight");
    const bool heads = name.find(".query_key_value.") != name.npos;
    if (heads && !w.form.grouped_heads) {
      members.emplace_back("sub_param_shape", three_parts(w, bias));
      continue;
    }
    members.emplace_back("cat_dim", PythonValue::integer(columns ? 1 : 0));
    if (w.d.gated && name.find(".dense_h_to_4h.") != name.npos) {
      members.emplace_back("param_n_sub_params", PythonValue::integer(2));
    }
    if (name.ends_with("word_embeddings.weight") ||
        name.ends_with("lm_head.weight") ||
        name.ends_with("output_layer.weight")) {
      members.emplace_back("vocab_tensor", PythonValue::boolean(true));
    }
  }
  return result;
}

void check_form(const Writing& w) {
  const bool known = w.d.family == model::ModelFamily::gpt2 ||
      w.d.family == model::ModelFamily::llama;
  if (!known) {
    throw ConfigError(
        {.what = "only GPT and Llama are written for Megatron-DeepSpeed",
         .values = std::string(model::name_of(w.d.family))});
  }
  if (model::has_experts(w.d) || w.d.query_key_norm || w.d.parallel_residual) {
    throw ConfigError(
        {.what = "models with experts, with norms of queries and keys or with "
                 "attention and MLP side by side are not written for "
                 "Megatron-DeepSpeed"});
  }
  const MegatronSplit& split = w.options.split;
  if (w.d.key_value_heads % split.tensor != 0) {
    throw ConfigError(
        {.what = "Megatron-DeepSpeed has whole key/value heads on each rank",
         .values = fmt::format(
             "{} heads over {} ranks",
             w.d.key_value_heads,
             split.tensor)});
  }
  if (!w.form.pipeline && split.pipeline > 1) {
    throw ConfigError(
        {.what = "a run with --no-pipeline-parallel has one stage",
         .values = fmt::format("{} stages", split.pipeline),
         .remedy = "--megatron-deepspeed pipeline"});
  }
  if (w.form.pipeline && !w.form.universal && w.form.stage > 1) {
    throw ConfigError(
        {.what = "DeepSpeed's pipelines run at ZeRO stage 0 or 1",
         .values = fmt::format("stage {}", w.form.stage),
         .remedy = "--zero-stage 1, or --megatron-deepspeed no-pipeline"});
  }
}

void write_whole(
    const Writing& w,
    const fs::path& folder,
    const NamedTensors& tensors,
    const Kinds& kinds,
    const MegatronSplit& ranks,
    const DeepSpeedState& counters) {
  const NamedTensors weights = tensors_of_ranks(w, tensors).front();
  const DeepSpeedState state = state_of_rank(w, counters, weights, kinds, 0);
  const deepspeed::ModelRank rank{
      .count = static_cast<int>(ranks.tensor * ranks.pipeline),
      .tensor = static_cast<int>(ranks.tensor),
      .module = w.form.pipeline ? PythonValue() : PythonValue::dict({})};
  deepspeed::write_universal(
      folder,
      state,
      {.type = w.type},
      rank,
      universal_members(w, state.parameters));
}

void write_cut(
    const Writing& w,
    const fs::path& folder,
    const NamedTensors& tensors,
    const Kinds& kinds,
    const DeepSpeedState& counters) {
  const MegatronSplit& split = w.options.split;
  const DeepSpeedLayout layout{
      .stage = w.form.stage,
      .ranks = w.form.ranks,
      .type = w.type};
  const std::string tag = deepspeed::tag_of(counters, layout);
  const fs::path place = deepspeed::new_folder(folder, tag);
  const std::vector<NamedTensors> all = tensors_of_ranks(w, tensors);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const DeepSpeedState state =
        state_of_rank(w, counters, all[rank], kinds, rank);
    const auto number = static_cast<std::int64_t>(rank);
    deepspeed::write_model_rank(
        place,
        state,
        layout,
        {.number = static_cast<int>(rank),
         .count = static_cast<int>(all.size()),
         .tensor = static_cast<int>(split.tensor),
         .module =
             w.form.pipeline ? PythonValue() : nested_module(w, all[rank])});
    if (w.form.pipeline) {
      write_layers(
          w,
          place,
          state.parameters,
          number / split.tensor,
          number % split.tensor);
    }
  }
  write_file_atomically(folder / "latest", tag);
}

} // namespace

void write_under_deepspeed(
    const fs::path& folder,
    const model::ModelDescription& d,
    const NamedTensors& tensors,
    const MegatronWriteOptions& given,
    const DeepSpeedForm& form,
    const DeepSpeedState& counters) {
  check(d, "the model to be written");
  MegatronWriteOptions options = given;
  options.split = checked(d, given.split);
  options.names = MegatronNames::legacy;
  const NamedTensors ours = parameter_tensors(d, tensors);
  Writing w{.d = d, .options = options, .form = form};
  w.type = options.type.value_or(ours.front().second.type);
  w.vocabulary = padded_rows(d.vocabulary, options);
  w.rows = form.universal ? d.vocabulary : w.vocabulary;
  check_form(w);
  const MegatronSplit ranks = options.split;
  if (form.universal) {
    options.split = {};
  }
  Kinds kinds;
  if (options.optimizer) {
    // The exact parameters themselves are the fp32 copies.
    options.optimizer->masters.clear();
    options.optimizer->distributed = false;
    for (const auto& [kind, values] : states_by_kind(d, *options.optimizer)) {
      kinds[kind] = tensors_of_ranks(w, values);
    }
  }
  if (form.universal) {
    write_whole(w, folder, ours, kinds, ranks, counters);
  } else {
    write_cut(w, folder, ours, kinds, counters);
  }
  if (options.iteration) {
    write_file_atomically(
        folder / tracker_file,
        fmt::format("{}", *options.iteration));
  }
}

} // namespace cairn::checkpoints::megatron
