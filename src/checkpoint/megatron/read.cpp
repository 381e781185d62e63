#include "checkpoint/head_rows.h"
#include "checkpoint/in_file.h"
#include "checkpoint/lazy_operations.h"
#include "checkpoint/megatron/args.h"
#include "checkpoint/megatron/names.h"
#include "checkpoint/megatron/rank_files.h"

#include <cairn/base/error.h>
#include <cairn/checkpoint/megatron.h>
#include <cairn/checkpoint/model_parameters.h>
#include <cairn/checkpoint/named_tensors.h>
#include <cairn/checkpoint/torch_file.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

namespace cairn::checkpoints {

namespace {

namespace fs = std::filesystem;
using megatron::Half;
using megatron::ModelFacts;
using megatron::RankFiles;

// Far beyond any model: what empty tensors may claim ends here.
constexpr std::int64_t most_layers = 10'000;
constexpr std::int64_t largest_rows = std::int64_t{1} << 32;
constexpr std::string_view word_embedding =
    "language_model.embedding.word_embeddings.weight";
constexpr std::string_view tied_head = "word_embeddings_for_head.weight";

/// One tensor rank's tensors of all stages, under names of the whole model.
struct RankTensors {
  struct Entry {
    LazyTensor tensor;
    fs::path file;
  };
  std::map<std::string, Entry, std::less<>> tensors;
};

std::string text_of(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

/// The models of a file: several where a stage has layers from several places
/// (the interleaved schedule).
std::vector<PythonValue> chunks_of(
    const PythonValue& content,
    const fs::path& file) {
  for (const char* key : {"model", "module"}) {
    if (const auto model = content.find(key)) {
      return {*model};
    }
  }
  std::vector<PythonValue> chunks;
  while (const auto model =
             content.find(fmt::format("model{}", chunks.size()))) {
    chunks.push_back(*model);
  }
  if (chunks.empty()) {
    throw CheckpointError(
        {.what = "no model in this file: neither \"model\" nor \"module\"",
         .where = file.string()});
  }
  return chunks;
}

/// Adds a chunk, its layers numbered on from `counts`, and counts them.
void add_chunk(
    const PythonValue& chunk,
    const fs::path& file,
    std::map<std::string, std::int64_t, std::less<>>& counts,
    RankTensors& rank) {
  const auto begins = counts;
  for (auto& [given, tensor] : named_tensors(chunk)) {
    std::string name = megatron::modern_name(given);
    if (megatron::is_ignored(name)) {
      continue;
    }
    if (const auto layer = megatron::layer_name(name)) {
      const auto begin = begins.find(layer->stack);
      const std::int64_t number = (begin == begins.end() ? 0 : begin->second) +
          std::min(layer->layer, most_layers);
      auto& count = counts[std::string(layer->stack)];
      count = std::max(count, number + 1);
      name = fmt::format("{}{}{}", layer->stack, number, layer->rest);
    }
    const bool added =
        rank.tensors.emplace(name, RankTensors::Entry{tensor, file}).second;
    // T5's first decoder stage has a copy of the embeddings.
    if (!added && !name.starts_with("language_model.embedding.")) {
      throw CheckpointError(
          {.what = "a tensor is there twice",
           .where = file.string(),
           .values = name});
    }
  }
}

RankTensors tensors_of_rank(
    const std::vector<std::vector<PythonValue>>& stages,
    const std::vector<fs::path>& files) {
  RankTensors rank;
  std::map<std::string, std::int64_t, std::less<>> counts;
  for (std::size_t chunk = 0; chunk < stages.front().size(); ++chunk) {
    for (std::size_t stage = 0; stage < stages.size(); ++stage) {
      if (stages[stage].size() != stages.front().size()) {
        throw CheckpointError(
            {.what = "stages of different numbers of models",
             .where = files[stage].string()});
      }
      in_file(files[stage], [&] {
        add_chunk(stages[stage][chunk], files[stage], counts, rank);
      });
    }
  }
  return rank;
}

ModelFacts facts_of(const RankTensors& rank, std::int64_t ranks) {
  const auto has = [&](std::string_view name) {
    return rank.tensors.contains(name);
  };
  const auto has_any = [&](std::string_view begin) {
    const auto found = rank.tensors.lower_bound(begin);
    return found != rank.tensors.end() && found->first.starts_with(begin);
  };
  ModelFacts facts;
  facts.t5 = has_any("language_model.decoder.");
  facts.masked_head = !facts.t5 && has("lm_head.bias");
  facts.pooler = has_any("language_model.pooler.");
  facts.next_sentence_head = has_any("binary_head.");
  facts.bert = facts.masked_head || facts.pooler;
  const auto rows = [&](std::string_view name) -> std::int64_t {
    const auto found = rank.tensors.find(name);
    if (found == rank.tensors.end() || found->second.tensor.shape.empty()) {
      return 0;
    }
    return std::min(found->second.tensor.shape.front(), largest_rows);
  };
  facts.token_types =
      rows("language_model.embedding.tokentype_embeddings.weight");
  facts.padded_vocabulary = ranks * rows(word_embedding);
  return facts;
}

/// Joins the pieces of all tensor ranks.
class Joiner {
 public:
  Joiner(
      std::vector<RankTensors> ranks,
      const ModelDescription& description,
      bool queries_keys_values,
      double version)
      : ranks_(std::move(ranks)),
        d_(description),
        queries_keys_values_(queries_keys_values || version == 0),
        turns_(!queries_keys_values_ && version == 1) {
    const auto size = static_cast<std::int64_t>(ranks_.size());
    if (d_.key_value_heads % size != 0) {
      throw CheckpointError(
          {.what = "the key/value heads do not divide over the tensor ranks",
           .values = fmt::format("{} over {}", d_.key_value_heads, size)});
    }
    if (d_.key_value_heads != d_.heads && turns_) {
      throw CheckpointError(
          {.what = "files of version 1 have as many key/value heads as heads",
           .values = fmt::format("{} and {}", d_.key_value_heads, d_.heads)});
    }
  }

  LazyTensor join(const ModelParameter& parameter) {
    const auto name = megatron::megatron_name(d_, parameter.name);
    if (!name) {
      throw CheckpointError(
          {.what = "no model of Megatron's has such a parameter",
           .values = parameter.name});
    }
    std::string dotted = name->path;
    std::ranges::replace(dotted, '/', '.');
    std::vector<LazyTensor> pieces;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      pieces.push_back(piece(parameter, dotted, name->half, rank));
    }
    switch (parameter.cut) {
      case TensorCut::whole:
        return std::move(pieces.front());
      case TensorCut::rows:
        return joined(std::move(pieces), 0);
      case TensorCut::columns:
        return joined(std::move(pieces), 1);
      case TensorCut::vocabulary:
        return without_padding(std::move(pieces), parameter, dotted);
    }
    throw InternalError({.what = "an unknown cut"});
  }

  /// Throws for tensors that were not asked for.
  void finish() {
    if (d_.tied_head) {
      used_.emplace(tied_head);
    }
    for (const RankTensors& rank : ranks_) {
      for (const auto& [name, entry] : rank.tensors) {
        if (!used_.contains(name)) {
          throw CheckpointError(
              {.what = "a tensor that this model does not have",
               .where = entry.file.string(),
               .values = name});
        }
      }
    }
  }

 private:
  LazyTensor piece(
      const ModelParameter& parameter,
      const std::string& name,
      Half half,
      std::size_t rank) {
    const auto found = ranks_[rank].tensors.find(name);
    if (found == ranks_[rank].tensors.end()) {
      throw CheckpointError(
          {.what = "a tensor of the model is missing",
           .where = fmt::format("tensor rank {}", rank),
           .values = name});
    }
    used_.insert(name);
    const auto& [tensor, file] = found->second;
    std::vector<std::int64_t> shape = shape_of_piece(parameter);
    if (half != Half::none) {
      shape[0] *= 2;
    }
    if (tensor.shape != shape || tensor.type != first(name).type) {
      throw CheckpointError(
          {.what = fmt::format("\"{}\" does not fit the model", name),
           .where = file.string(),
           .values = fmt::format(
               "{} {}, not {} {}",
               c10::toString(tensor.type),
               text_of(tensor.shape),
               c10::toString(first(name).type),
               text_of(shape))});
    }
    if (half != Half::none) {
      const std::int64_t rows = shape[0] / 2;
      const std::int64_t begin = half == Half::first ? 0 : rows;
      return sliced(tensor, 0, begin, begin + rows);
    }
    return in_our_order(name, tensor);
  }

  const LazyTensor& first(const std::string& name) const {
    return ranks_.front().tensors.find(name)->second.tensor;
  }

  std::vector<std::int64_t> shape_of_piece(
      const ModelParameter& parameter) const {
    std::vector<std::int64_t> shape = parameter.shape;
    const auto ranks = static_cast<std::int64_t>(ranks_.size());
    switch (parameter.cut) {
      case TensorCut::whole:
        break;
      case TensorCut::rows:
        shape[0] /= ranks;
        break;
      case TensorCut::columns:
        shape[1] /= ranks;
        break;
      case TensorCut::vocabulary:
        shape[0] = d_.padded_vocabulary / ranks;
        break;
    }
    return shape;
  }

  LazyTensor in_our_order(const std::string& name, LazyTensor tensor) const {
    const bool query_key_value = name.find(".query_key_value.") != name.npos;
    const bool key_value = name.find(".key_value.") != name.npos;
    if (!query_key_value && !key_value) {
      return tensor;
    }
    const auto rows =
        query_key_value ? query_key_value_rows(d_) : key_value_rows(d_);
    if (turns_) {
      return heads_from_turns(
          std::move(tensor),
          static_cast<std::int64_t>(rows.size()),
          d_.head_size);
    }
    if (queries_keys_values_) {
      return heads_together(
          std::move(tensor),
          rows,
          d_.key_value_heads / static_cast<std::int64_t>(ranks_.size()));
    }
    return tensor;
  }

  /// Only the rows of the vocabulary itself.
  static LazyTensor without_padding(
      std::vector<LazyTensor> pieces,
      const ModelParameter& parameter,
      const std::string& name) {
    std::int64_t left = parameter.shape[0];
    std::vector<LazyTensor> kept;
    for (LazyTensor& piece : pieces) {
      const std::int64_t rows = std::min(left, piece.shape[0]);
      if (rows > 0) {
        kept.push_back(sliced(std::move(piece), 0, 0, rows));
        left -= rows;
      }
    }
    if (left > 0) {
      throw CheckpointError(
          {.what = fmt::format("\"{}\" is smaller than the vocabulary", name),
           .values = fmt::format("{} rows are missing", left)});
    }
    return joined(std::move(kept), 0);
  }

  std::vector<RankTensors> ranks_;
  const ModelDescription& d_;
  bool queries_keys_values_;
  bool turns_;
  std::set<std::string, std::less<>> used_;
};

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

/// A whole number of the args; nothing if it is not there.
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

/// The args name a split, too.
void expect_split(
    const PythonValue& args,
    const RankFiles& files,
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

/// What Megatron saves beside the model, the args and the optimizer.
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

/// All but the model.
MegatronCheckpoint without_model(
    const PythonValue& first,
    const RankFiles& files) {
  const fs::path& where = files.paths.front();
  MegatronCheckpoint checkpoint{
      .split = {files.tensor, files.pipeline},
      .version = version_of(first, where),
      .iteration = files.iteration,
      .args = first.find("args").value_or(PythonValue()),
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

struct Contents {
  std::vector<RankTensors> ranks;
  PythonValue first; ///< all of the first rank's file
};

Contents contents_of(const RankFiles& files) {
  Contents contents;
  for (std::int64_t tensor = 0; tensor < files.tensor; ++tensor) {
    std::vector<std::vector<PythonValue>> stages;
    std::vector<fs::path> paths;
    for (std::int64_t stage = 0; stage < files.pipeline; ++stage) {
      const fs::path& path = files.at(stage, tensor);
      const PythonValue content = read_torch_file(path);
      stages.push_back(in_file(path, [&] { return chunks_of(content, path); }));
      paths.push_back(path);
      if (tensor == 0 && stage == 0) {
        contents.first = content;
      }
    }
    contents.ranks.push_back(tensors_of_rank(stages, paths));
  }
  return contents;
}

ModelDescription description_of(
    const PythonValue& args,
    const ModelFacts& facts,
    const MegatronReadOptions& options,
    const std::string& where) {
  ModelDescription d;
  if (options.description) {
    d = *options.description;
    d.padded_vocabulary = facts.padded_vocabulary;
  } else if (args.is_none()) {
    throw CheckpointError(
        {.what = "the file has no args, so the model is unknown",
         .where = where,
         .remedy = "give the model's description"});
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
  const RankFiles files = megatron::find_rank_files(folder, options.iteration);
  Contents contents = contents_of(files);
  std::vector<RankTensors>& ranks = contents.ranks;
  const PythonValue& first = contents.first;
  const fs::path& where = files.paths.front();
  if (!ranks.front().tensors.contains(word_embedding)) {
    throw CheckpointError(
        {.what = "not a model of Megatron's",
         .where = where.string(),
         .values = fmt::format("no {}", word_embedding)});
  }
  MegatronCheckpoint checkpoint =
      in_file(where, [&] { return without_model(first, files); });
  const ModelDescription& d = checkpoint.description = description_of(
      checkpoint.args,
      facts_of(ranks.front(), files.tensor),
      options,
      where.string());
  Joiner joiner(
      std::move(ranks),
      d,
      options.heads == MegatronHeads::queries_keys_values,
      checkpoint.version);
  for (const ModelParameter& parameter : model_parameters(d)) {
    checkpoint.tensors.emplace_back(parameter.name, joiner.join(parameter));
  }
  joiner.finish();
  return checkpoint;
}

} // namespace cairn::checkpoints
