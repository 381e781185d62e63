#include "checkpoint/lazy_operations.h"
#include "checkpoint/megatron/args.h"
#include "checkpoint/megatron/names.h"
#include "checkpoint/megatron/rank_files.h"
#include "checkpoint/parameter_tensors.h"

#include <cairn/base/atomic_file.h>
#include <cairn/base/error.h>
#include <cairn/checkpoint/megatron.h>
#include <cairn/checkpoint/model_parameters.h>
#include <cairn/checkpoint/torch_file.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <string_view>
#include <utility>

namespace cairn::checkpoints {

namespace {

namespace fs = std::filesystem;

void expect_divides(
    std::string_view what,
    std::int64_t value,
    std::string_view by,
    std::int64_t divisor) {
  if (divisor < 1 || value % divisor != 0) {
    throw ConfigError(
        {.what = fmt::format("{} cannot be cut over {}", what, by),
         .values = fmt::format("{} over {}", value, divisor)});
  }
}

/// With the stages of a T5's encoder filled in.
MegatronSplit checked(const ModelDescription& d, MegatronSplit split) {
  if (split.pipeline < 1) {
    throw ConfigError(
        {.what = "at least one pipeline stage is wanted",
         .values = fmt::format("{}", split.pipeline)});
  }
  const auto tensor_ranks = "the tensor parallel ranks";
  expect_divides("the heads", d.heads, tensor_ranks, split.tensor);
  expect_divides(
      "the key/value heads",
      d.key_value_heads,
      tensor_ranks,
      split.tensor);
  expect_divides("the MLP", d.ffn, tensor_ranks, split.tensor);
  if (d.family != ModelFamily::t5) {
    expect_divides(
        "the layers",
        d.layers,
        "the pipeline stages",
        split.pipeline);
    return split;
  }
  if (split.encoder_stages == 0) {
    split.encoder_stages = split.pipeline / 2;
  }
  if (split.pipeline > 1) {
    expect_divides(
        "the encoder's layers",
        d.layers,
        "its pipeline stages",
        split.encoder_stages);
    expect_divides(
        "the decoder's layers",
        d.decoder_layers,
        "its pipeline stages",
        split.pipeline - split.encoder_stages);
  }
  return split;
}

/// Where a parameter goes: the stage, and what the layer is called there.
struct Place {
  std::int64_t stage = 0;
  std::string name;
};

/// Stages of one stack of layers.
struct Stages {
  std::int64_t first = 0;
  std::int64_t count = 1;
  std::int64_t layers = 0;
};

class Pipeline {
 public:
  Pipeline(const ModelDescription& d, const MegatronSplit& split)
      : split_(split), encoder_{0, split.pipeline, d.layers} {
    if (d.family == ModelFamily::t5) {
      const bool one = split.pipeline == 1;
      encoder_.count = one ? 1 : split.encoder_stages;
      decoder_ = {
          one ? 0 : split.encoder_stages,
          one ? 1 : split.pipeline - split.encoder_stages,
          d.decoder_layers};
    }
  }

  Place place(const std::string& parameter) const {
    const bool decoder = parameter.starts_with("decoder.");
    const Stages& stages = decoder ? decoder_ : encoder_;
    const auto at = parameter.find("layers.");
    if (at != std::string::npos) {
      return layer(parameter, at + 7, stages);
    }
    if (parameter.starts_with("embedding.")) {
      return {0, parameter};
    }
    if (parameter.ends_with("final_norm.weight") ||
        parameter.ends_with("final_norm.bias")) {
      return {stages.first + stages.count - 1, parameter};
    }
    return {split_.pipeline - 1, parameter};
  }

  /// Stages beside the first that have a copy of the embeddings.
  bool copies_embedding(std::int64_t stage) const {
    return decoder_.layers > 0 && stage > 0 && stage == decoder_.first;
  }
  /// Whether it has one for the tied head alone.
  bool copies_for_head(std::int64_t stage) const {
    return stage > 0 && stage == split_.pipeline - 1 &&
        !copies_embedding(stage);
  }

 private:
  static Place layer(
      const std::string& parameter,
      std::size_t at,
      const Stages& stages) {
    std::int64_t number = 0;
    const char* const begin = parameter.data() + at;
    const char* const end = parameter.data() + parameter.size();
    const char* const rest = std::from_chars(begin, end, number).ptr;
    const std::int64_t each = stages.layers / stages.count;
    return {
        stages.first + number / each,
        fmt::format(
            "{}{}{}",
            parameter.substr(0, at),
            number % each,
            std::string_view(rest, static_cast<std::size_t>(end - rest)))};
  }

  MegatronSplit split_;
  Stages encoder_;
  Stages decoder_;
};

/// One tensor rank's part.
LazyTensor part_of(
    const LazyTensor& tensor,
    TensorCut cut,
    std::int64_t rank,
    std::int64_t ranks,
    std::int64_t padded_vocabulary) {
  switch (cut) {
    case TensorCut::whole:
      return tensor;
    case TensorCut::rows:
    case TensorCut::columns: {
      const std::int64_t dim = cut == TensorCut::rows ? 0 : 1;
      const std::int64_t each =
          tensor.shape[static_cast<std::size_t>(dim)] / ranks;
      return sliced(tensor, dim, rank * each, (rank + 1) * each);
    }
    case TensorCut::vocabulary: {
      const std::int64_t each = padded_vocabulary / ranks;
      return rows_repeating_last(tensor, rank * each, (rank + 1) * each);
    }
  }
  throw InternalError({.what = "an unknown cut"});
}

using Paths = std::vector<std::pair<std::string_view, PythonValue>>;

/// Dicts in dicts, from names like "language_model/encoder/layers.0.bias".
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

/// The tensors of a rank, in order: parts of one tensor joined.
class RankModel {
 public:
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
    return nested(paths);
  }

 private:
  std::vector<std::pair<std::string, std::vector<LazyTensor>>> order_;
  std::map<std::string, std::size_t> places_;
};

/// What the file of each tensor rank of each stage holds.
std::vector<RankModel> models_of_ranks(
    const ModelDescription& d,
    const NamedTensors& tensors,
    const MegatronSplit& split,
    std::int64_t padded_vocabulary) {
  const Pipeline pipeline(d, split);
  std::vector<RankModel> models(
      static_cast<std::size_t>(split.pipeline * split.tensor));
  std::size_t next = 0;
  for (const ModelParameter& parameter : model_parameters(d)) {
    const LazyTensor& tensor = tensors[next++].second;
    const Place place = pipeline.place(parameter.name);
    const auto name = megatron::megatron_name(d, place.name);
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
      for (std::int64_t rank = 0; rank < split.tensor; ++rank) {
        models[static_cast<std::size_t>(stage * split.tensor + rank)].add(
            for_head ? std::string(megatron::tied_head_path) : name->path,
            part_of(
                tensor,
                parameter.cut,
                rank,
                split.tensor,
                padded_vocabulary));
      }
    }
  }
  return models;
}

PythonValue rank_file(
    const RankModel& model,
    const PythonValue& args,
    const MegatronWriteOptions& options) {
  std::vector<PythonValue::Member> members{
      {"args", args},
      {"checkpoint_version", PythonValue::real(3)}};
  if (options.iteration) {
    members.emplace_back("iteration", PythonValue::integer(*options.iteration));
  }
  members.emplace_back("model", model.dict());
  members.insert(members.end(), options.others.begin(), options.others.end());
  return PythonValue::dict_of(std::move(members));
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
  return (vocabulary + multiple - 1) / multiple * multiple;
}

} // namespace

void write_megatron(
    const fs::path& folder,
    const ModelDescription& d,
    const NamedTensors& tensors,
    const MegatronWriteOptions& given) {
  check(d, "the model to be written");
  MegatronWriteOptions options = given;
  options.split = checked(d, given.split);
  const MegatronSplit& split = options.split;
  const std::int64_t vocabulary = padded(d.vocabulary, options);
  NamedTensors ours = parameter_tensors(d, tensors);
  if (options.type) {
    for (auto& [name, tensor] : ours) {
      tensor = converted(std::move(tensor), *options.type);
    }
  }
  const PythonValue args =
      megatron::args_of(d, options, vocabulary, ours.front().second.type);
  const std::vector<RankModel> models =
      models_of_ranks(d, ours, split, vocabulary);
  const fs::path target =
      folder / megatron::iteration_folder(options.iteration);
  if (megatron::has_ranks(target)) {
    throw ConfigError(
        {.what = "the folder holds a checkpoint already",
         .where = target.string(),
         .remedy = "choose another, or empty it first"});
  }
  auto model = models.begin();
  for (std::int64_t stage = 0; stage < split.pipeline; ++stage) {
    for (std::int64_t rank = 0; rank < split.tensor; ++rank) {
      const fs::path file =
          target / megatron::rank_folder(rank, stage, split.pipeline);
      fs::create_directories(file);
      write_torch_file(
          file / "model_optim_rng.pt",
          rank_file(*model++, args, options));
    }
  }
  write_file_atomically(
      folder / megatron::tracker_file,
      options.iteration ? fmt::format("{}", *options.iteration)
                        : std::string("release"));
}

} // namespace cairn::checkpoints
