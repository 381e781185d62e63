#include "checkpoints/megatron/args.h"
#include "checkpoints/megatron/names.h"
#include "checkpoints/megatron/pipeline.h"
#include "checkpoints/megatron/rank_files.h"
#include "checkpoints/megatron/torch_dist.h"
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
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace cairn::checkpoints {

namespace {

namespace fs = std::filesystem;

/// The part of a tensor that one tensor rank has.
LazyTensor part_of(
    const LazyTensor& tensor,
    model::TensorCut cut,
    std::int64_t rank,
    std::int64_t ranks,
    std::int64_t padded_vocabulary) {
  switch (cut) {
    case model::TensorCut::whole:
      return tensor;
    case model::TensorCut::rows:
    case model::TensorCut::columns:
    case model::TensorCut::third: {
      const std::int64_t dim = cut == model::TensorCut::rows ? 0
          : cut == model::TensorCut::columns                 ? 1
                                                             : 2;
      const std::int64_t each =
          tensor.shape[static_cast<std::size_t>(dim)] / ranks;
      return sliced(tensor, dim, rank * each, (rank + 1) * each);
    }
    case model::TensorCut::vocabulary: {
      const std::int64_t each = padded_vocabulary / ranks;
      return rows_repeating_last(tensor, rank * each, (rank + 1) * each);
    }
  }
  throw InternalError({.what = "an unknown cut"});
}

using Paths = std::vector<std::pair<std::string_view, PythonValue>>;

/// Nested dicts from names like "language_model/encoder/layers.0.bias".
PythonValue nested(const Paths& paths) {
  std::vector<std::pair<std::string_view, Paths>> inner;
  std::vector<PythonValue::Member> members;
  for (const auto& [path, value] : paths) {
    const auto slash = path.find('/');
    if (slash == std::string_view::npos) {
      members.emplace_back(std::string(path), value);
      continue;
    }
    const std::string_view key = path.substr(0, slash);
    auto found =
        std::ranges::find(inner, key, &decltype(inner)::value_type::first);
    if (found == inner.end()) {
      found = inner.insert(inner.end(), {key, {}});
    }
    found->second.emplace_back(path.substr(slash + 1), value);
  }
  for (const auto& [key, values] : inner) {
    members.emplace_back(std::string(key), nested(values));
  }
  return PythonValue::dict_of(std::move(members));
}

/// The tensors of a rank, in order. Parts of one tensor are joined.
class RankModel {
 public:
  /// Adds a value that is no tensor.
  void add(std::string path, PythonValue value) {
    others_.emplace_back(std::move(path), std::move(value));
  }

  void add(std::string path, LazyTensor part) {
    const auto [found, added] = places_.emplace(path, order_.size());
    if (added) {
      order_.emplace_back(std::move(path), std::vector<LazyTensor>());
    }
    order_[found->second].second.push_back(std::move(part));
  }

  PythonValue dict() const {
    Paths paths;
    for (const auto& [path, parts] : order_) {
      paths.emplace_back(path, PythonValue::tensor(joined(parts, 0)));
    }
    for (const auto& [path, value] : others_) {
      paths.emplace_back(path, value);
    }
    return nested(paths);
  }

 private:
  std::vector<std::pair<std::string, std::vector<LazyTensor>>> order_;
  std::map<std::string, std::size_t> places_;
  std::vector<std::pair<std::string, PythonValue>> others_;
};

/// Name of the entry that Megatron-Core has beside the weight of a linear
/// layer, for states of FP8; nullopt for other weights.
std::optional<std::string> extra_state_of(const std::string& path) {
  constexpr std::string_view weight = ".weight";
  const bool linear =
      path.find(".linear_") != path.npos || path.starts_with("output_layer.");
  return linear && path.ends_with(weight)
      ? std::optional(
            path.substr(0, path.size() - weight.size()) + "._extra_state")
      : std::nullopt;
}

/// Adds the entries without which Megatron-Core finds that keys are missing.
void add_extra_states(const std::string& path, bool once, RankModel& model) {
  const auto extra = extra_state_of(path);
  if (extra && once) {
    model.add(*extra, PythonValue());
  }
}

/// Content of the file of each tensor rank of each stage.
std::vector<RankModel> models_of_ranks(
    const model::ModelDescription& d,
    const NamedTensors& tensors,
    const MegatronSplit& split,
    MegatronNames names,
    std::int64_t padded_vocabulary) {
  const bool core = names != MegatronNames::legacy;
  const megatron::Pipeline pipeline(d, split);
  std::vector<RankModel> models(
      static_cast<std::size_t>(split.pipeline * split.tensor));
  std::size_t next = 0;
  for (const model::ModelParameter& parameter : model::model_parameters(d)) {
    const LazyTensor& tensor = tensors[next++].second;
    const megatron::Place place = pipeline.place(parameter.name);
    const auto name = megatron::megatron_name(d, place.name, names);
    if (!name) {
      throw ConfigError(
          {.what = "no model of Megatron's has such a parameter",
           .values = parameter.name});
    }
    for (std::int64_t stage = 0; stage < split.pipeline; ++stage) {
      const bool copied = parameter.name.starts_with("embedding.") &&
          pipeline.copies_embedding(stage);
      const bool for_head = parameter.name == "embedding.word.weight" &&
          d.tied_head && pipeline.copies_for_head(stage);
      if (stage != place.stage && !copied && !for_head) {
        continue;
      }
      const std::string path =
          for_head ? std::string(megatron::tied_head_path(names)) : name->path;
      for (std::int64_t rank = 0; rank < split.tensor; ++rank) {
        RankModel& model =
            models[static_cast<std::size_t>(stage * split.tensor + rank)];
        model.add(
            path,
            part_of(
                tensor,
                parameter.cut,
                rank,
                split.tensor,
                padded_vocabulary));
        if (core) {
          add_extra_states(path, name->half != megatron::Half::second, model);
        }
      }
    }
  }
  // With one stage a tied head has no weight, but an entry for FP8.
  if (core && d.tied_head && split.pipeline == 1) {
    for (RankModel& model : models) {
      model.add("output_layer._extra_state", PythonValue());
    }
  }
  return models;
}

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
  return members;
}

PythonValue rank_file(
    const RankModel& model,
    const PythonValue& args,
    const MegatronWriteOptions& options) {
  std::vector<PythonValue::Member> members = beside_model(args, options);
  members.emplace_back("model", model.dict());
  members.insert(members.end(), options.others.begin(), options.others.end());
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
  const std::vector<RankModel> models =
      models_of_ranks(d, tensors, split, *options.names, vocabulary);
  auto model = models.begin();
  for (std::int64_t stage = 0; stage < split.pipeline; ++stage) {
    for (std::int64_t rank = 0; rank < split.tensor; ++rank) {
      const fs::path file =
          target / megatron::rank_folder(rank, stage, split.pipeline);
      make_folder(file);
      write_torch_file(
          file / "model_optim_rng.pt",
          rank_file(*model++, args, options));
    }
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
         .remedy = "write its format torch, or a GPT or Llama"});
  }
  std::vector<PythonValue::Member> common = beside_model(args, options);
  for (const PythonValue::Member& other : options.others) {
    if (other.first != "rng_state") {
      common.push_back(other);
    }
  }
  megatron::write_torch_dist(target, d, tensors, vocabulary, std::move(common));
}

/// The spelling that is asked for, or today's of that model. Throws ConfigError
/// for models that we do not write under Megatron-Core's names.
MegatronNames names_of(
    const model::ModelDescription& d,
    const MegatronWriteOptions& options) {
  const bool known = d.family == model::ModelFamily::gpt2 ||
      d.family == model::ModelFamily::llama;
  const MegatronNames names = options.names.value_or(
      known ? MegatronNames::core : MegatronNames::legacy);
  if (names != MegatronNames::legacy && !known) {
    throw ConfigError(
        {.what = "only GPT and Llama are written under Megatron-Core's names",
         .values = std::string(model::name_of(d.family)),
         .remedy = "--megatron-names legacy"});
  }
  return names;
}

std::int64_t padded(
    std::int64_t vocabulary,
    const MegatronWriteOptions& options) {
  if (options.vocabulary_multiple < 1 ||
      options.vocabulary_multiple > std::int64_t{1} << 30) {
    throw ConfigError(
        {.what = "the vocabulary cannot be padded to a multiple of that",
         .values = fmt::format("{}", options.vocabulary_multiple)});
  }
  const std::int64_t multiple =
      options.vocabulary_multiple * options.split.tensor;
  return model::padded_vocabulary(vocabulary, multiple);
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
  const std::int64_t vocabulary = padded(d.vocabulary, options);
  NamedTensors ours = parameter_tensors(d, tensors);
  if (options.type) {
    for (auto& [name, tensor] : ours) {
      tensor = as_type(std::move(tensor), *options.type);
    }
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
