#include "checkpoints/megatron/rank_tensors.h"

#include "checkpoints/megatron/experts.h"
#include "checkpoints/megatron/names.h"
#include "checkpoints/tensors/in_file.h"
#include "checkpoints/tensors/named_tensors.h"

#include <cairn/base/error.h>
#include <cairn/checkpoints/torch_file.h>
#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

namespace cairn::checkpoints::megatron {

namespace {

namespace fs = std::filesystem;

// A limit far beyond any model: it bounds what empty tensors may claim.
constexpr std::int64_t largest_rows = std::int64_t{1} << 32;

/// The models in a file. There are several where a stage has layers from
/// several places (the interleaved schedule).
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

/// Adds a chunk and counts its layers. They are numbered on from `counts`.
void add_chunk(
    const PythonValue& chunk,
    const fs::path& file,
    std::map<std::string, std::int64_t, std::less<>>& counts,
    std::vector<OrderedParameter>& order,
    RankTensors& rank) {
  const auto begins = counts;
  for (auto& [given, tensor] : named_tensors(chunk)) {
    std::string name = modern_name(given);
    rank.fused_norms =
        rank.fused_norms || given.find(".linear_qkv.layer_norm_") != given.npos;
    if (is_ignored(name)) {
      continue;
    }
    if (const auto layer = layer_name(name)) {
      const auto begin = begins.find(layer->stack);
      const std::int64_t number = (begin == begins.end() ? 0 : begin->second) +
          std::min(layer->layer, most_layers);
      auto& count = counts[std::string(layer->stack)];
      count = std::max(count, number + 1);
      name = fmt::format("{}{}{}", layer->stack, number, layer->rest);
    }
    order.push_back({name, tensor.shape});
    // T5's first decoder stage has a copy of the embeddings.
    const bool copied = name.starts_with("language_model.embedding.") &&
        rank.tensors.contains(name);
    if (!copied) {
      add_tensor(rank, name, std::move(tensor), file);
    }
  }
}

/// The tensors in the files of all stages of a rank. Notes the parameters of
/// each file.
RankTensors tensors_of_rank(
    const std::vector<std::vector<PythonValue>>& stages,
    std::span<FileOrder> files) {
  RankTensors rank;
  std::map<std::string, std::int64_t, std::less<>> counts;
  for (std::size_t chunk = 0; chunk < stages.front().size(); ++chunk) {
    for (std::size_t stage = 0; stage < stages.size(); ++stage) {
      if (stages[stage].size() != stages.front().size()) {
        throw CheckpointError(
            {.what = "stages of different numbers of models",
             .where = files[stage].file.string()});
      }
      in_file(files[stage].file, [&] {
        add_chunk(
            stages[stage][chunk],
            files[stage].file,
            counts,
            files[stage].parameters,
            rank);
      });
    }
  }
  if (rank.tensors.contains(t5_head_bias)) {
    const std::string second(second_head_bias);
    rank.tensors.erase(second);
    for (FileOrder& file : files) {
      std::erase_if(file.parameters, [&](const OrderedParameter& one) {
        return one.name == second;
      });
    }
  }
  return rank;
}

} // namespace

void add_tensor(
    RankTensors& rank,
    const std::string& name,
    LazyTensor tensor,
    const fs::path& file) {
  const bool added =
      rank.tensors.emplace(name, RankTensors::Entry{std::move(tensor), file})
          .second;
  if (!added) {
    throw CheckpointError(
        {.what = "a tensor is there twice",
         .where = file.string(),
         .values = name});
  }
}

void expect_model(const Contents& contents) {
  const auto& tensors = contents.ranks.front().tensors;
  const std::string_view word_embedding = word_embedding_name(contents.names);
  if (!tensors.contains(word_embedding)) {
    throw CheckpointError(
        {.what = "not a model of Megatron's",
         .where = contents.where.string(),
         .values = fmt::format("no {}", word_embedding)});
  }
  if (contents.names == MegatronNames::legacy) {
    return;
  }
  for (const auto& [name, entry] : tensors) {
    if (name.find(".linear_kv_") != name.npos) {
      throw CheckpointError(
          {.what = "a model of Megatron-Core with latent attention",
           .where = entry.file.string(),
           .values = name,
           .remedy = "such models are not read"});
    }
  }
  if (contents.split.pipeline > 1 && tensors.contains(t5_head_bias)) {
    throw CheckpointError(
        {.what = "a T5 of Megatron-Core in several pipeline stages, which its "
                 "program does not train",
         .where = contents.where.string(),
         .values = fmt::format("{} stages", contents.split.pipeline)});
  }
}

namespace {

/// A positive number in the args of a file; 1 if it is not there.
std::int64_t number_in_args(const PythonValue& content, const char* name) {
  const auto args = content.find("args");
  const auto value = args && !args->is_none() ? args->find(name) : std::nullopt;
  return value && value->is(PythonValue::Kind::integer)
      ? std::max<std::int64_t>(1, value->integer())
      : 1;
}

/// The files, with the second number of their names taken for the rank that has
/// some of the experts, as Megatron writes it where there are no stages.
RankFiles with_expert_ranks(RankFiles files, const PythonValue& first) {
  if (files.expert == 1 && files.pipeline > 1 &&
      number_in_args(first, "expert_model_parallel_size") == files.pipeline &&
      number_in_args(first, "pipeline_model_parallel_size") == 1) {
    std::swap(files.expert, files.pipeline);
  }
  return files;
}

} // namespace

std::int64_t experts_in_args(const PythonValue& content) {
  return number_in_args(content, "num_experts");
}

Contents read_rank_files(const RankFiles& given) {
  Contents contents;
  contents.where = given.paths.front();
  contents.first = read_torch_file(given.paths.front());
  const RankFiles files = with_expert_ranks(given, contents.first);
  contents.split = {
      .tensor = files.tensor,
      .pipeline = files.pipeline,
      .expert = files.expert};
  for (std::int64_t tensor = 0; tensor < files.tensor; ++tensor) {
    std::vector<RankTensors> parts;
    for (std::int64_t expert = 0; expert < files.expert; ++expert) {
      std::vector<std::vector<PythonValue>> stages;
      const std::size_t first_file = contents.files.size();
      for (std::int64_t stage = 0; stage < files.pipeline; ++stage) {
        const fs::path& path = files.at(stage, tensor, expert);
        const PythonValue content =
            path == contents.where ? contents.first : read_torch_file(path);
        stages.push_back(
            in_file(path, [&] { return chunks_of(content, path); }));
        contents.files.push_back(
            {.tensor = static_cast<std::size_t>(tensor),
             .expert = static_cast<std::size_t>(expert),
             .file = path});
      }
      parts.push_back(tensors_of_rank(
          stages,
          std::span(contents.files).subspan(first_file)));
    }
    contents.ranks.push_back(with_stacked_experts(
        std::move(parts),
        experts_in_args(contents.first)));
  }
  if (contents.ranks.front().tensors.contains(
          word_embedding_name(MegatronNames::core_local))) {
    contents.names = MegatronNames::core_local;
  }
  const auto optimizer = contents.first.find("optimizer");
  contents.has_optimizer = optimizer && !optimizer->is_none();
  return contents;
}

namespace {

/// The number of layers in a stack, of which each has a name with its number.
std::int64_t layers_in(const RankTensors& rank, std::string_view stack) {
  std::int64_t count = 0;
  auto found = rank.tensors.lower_bound(stack);
  for (; found != rank.tensors.end() && found->first.starts_with(stack);
       ++found) {
    if (const auto layer = layer_name(found->first)) {
      count = std::max(count, std::min(layer->layer, most_layers) + 1);
    }
  }
  return count;
}

} // namespace

ModelFacts facts_of(const Contents& contents) {
  const RankTensors& rank = contents.ranks.front();
  const auto has = [&](std::string_view name) {
    return rank.tensors.contains(name);
  };
  const auto has_any = [&](std::string_view begin) {
    const auto found = rank.tensors.lower_bound(begin);
    return found != rank.tensors.end() && found->first.starts_with(begin);
  };
  ModelFacts facts;
  const bool core = contents.names != MegatronNames::legacy;
  facts.t5 = core ? has_any("encoder.") && has_any("decoder.")
                  : has_any("language_model.decoder.");
  facts.masked_head =
      !facts.t5 && (core ? has_any("lm_head.dense.") : has("lm_head.bias"));
  facts.pooler = has_any(core ? "pooler." : "language_model.pooler.");
  facts.next_sentence_head = has_any("binary_head.");
  facts.bert = facts.masked_head || facts.pooler ||
      (core && !facts.t5 && has_any("encoder."));
  const auto rows = [&](std::string_view name) -> std::int64_t {
    const auto found = rank.tensors.find(name);
    if (found == rank.tensors.end() || found->second.tensor.shape.empty()) {
      return 0;
    }
    return std::min(found->second.tensor.shape.front(), largest_rows);
  };
  facts.token_types = rows(
      core ? "embedding.tokentype_embeddings.weight"
           : "language_model.embedding.tokentype_embeddings.weight");
  if (facts.t5) {
    facts.decoder_layers = layers_in(
        rank,
        core ? "decoder.layers." : "language_model.decoder.layers.");
    facts.decoder_as_said = !core;
  }
  facts.padded_vocabulary = static_cast<std::int64_t>(contents.ranks.size()) *
      rows(word_embedding_name(contents.names));
  return facts;
}

} // namespace cairn::checkpoints::megatron
