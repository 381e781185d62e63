#include "checkpoints/huggingface/classifier.h"
#include "checkpoints/huggingface/weight_files.h"
#include "checkpoints/internal/head_rows.h"
#include "checkpoints/internal/huggingface_names.h"
#include "checkpoints/internal/safetensors_header.h"
#include "checkpoints/tensors/lazy_operations.h"
#include "checkpoints/tensors/make_folder.h"
#include "checkpoints/tensors/named_tensors.h"
#include "checkpoints/tensors/parameter_tensors.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>
#include <cairn/checkpoints/huggingface.h>
#include <cairn/checkpoints/safetensors.h>
#include <cairn/model/parameters.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <array>
#include <utility>

namespace cairn::checkpoints {

namespace {

namespace fs = std::filesystem;
using huggingface::Change;
using huggingface::NamePair;

constexpr std::array<const char*, 13> tokenizer_files{
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "tokenizer.model",
    "spiece.model",
    "sentencepiece.bpe.model",
    "chat_template.jinja",
    "chat_template.json",
    "generation_config.json"};

constexpr std::uint64_t largest_tokenizer = std::uint64_t{1} << 30;

/// Adds their tensors, made from one of ours.
void add_theirs(
    const model::ModelDescription& d,
    const NamePair& pair,
    const LazyTensor& tensor,
    NamedTensors& theirs) {
  switch (pair.change) {
    case Change::none:
      theirs.emplace_back(pair.theirs[0], tensor);
      break;
    case Change::transpose:
      theirs.emplace_back(pair.theirs[0], transposed(tensor));
      break;
    case Change::reorder_columns:
      theirs.emplace_back(
          pair.theirs[0],
          transposed(
              heads_apart(tensor, query_key_value_rows(d), d.key_value_heads)));
      break;
    case Change::join_heads: {
      const std::vector<std::int64_t> rows =
          pair.theirs.size() == 3 ? query_key_value_rows(d) : key_value_rows(d);
      for (std::size_t i = 0; i < rows.size(); ++i) {
        theirs.emplace_back(
            pair.theirs[i],
            deinterleaved(tensor, d.key_value_heads, rows, i));
      }
      break;
    }
    case Change::stack_experts:
      for (std::size_t i = 0; i < pair.theirs.size(); ++i) {
        theirs.emplace_back(
            pair.theirs[i],
            row_of(tensor, static_cast<std::int64_t>(i)));
      }
      break;
  }
}

/// The name in the file of a model without a classifier: if it has no other
/// head either, it is saved without the base's prefix.
std::string file_name(const model::ModelDescription& d, std::string name) {
  const bool headless = (d.family == model::ModelFamily::bert ||
                         d.family == model::ModelFamily::roberta) &&
      !d.masked_head;
  const std::string_view base = huggingface::family_names(d).base;
  if (headless && name.starts_with(base)) {
    name.erase(0, base.size());
  }
  return name;
}

std::vector<NamedTensors> shards_of(NamedTensors tensors, std::uint64_t most) {
  std::vector<NamedTensors> shards(1);
  std::uint64_t bytes = 0;
  for (auto& named : tensors) {
    const auto& [name, tensor] = named;
    const std::uint64_t more =
        tensor_bytes(tensor.shape, tensor.type).value_or(0);
    if (bytes + more > most && !shards.back().empty()) {
      shards.emplace_back();
      bytes = 0;
    }
    bytes += more;
    shards.back().push_back(std::move(named));
  }
  return shards;
}

void write_shard(const fs::path& path, const NamedTensors& tensors) {
  std::vector<SafetensorsWriter::Entry> entries;
  for (const auto& [name, tensor] : tensors) {
    entries.push_back({name, tensor.type, tensor.shape});
  }
  SafetensorsWriter writer(path, entries, {{"format", "pt"}});
  for (const auto& [name, tensor] : tensors) {
    tensor.stream([&](std::span<const std::byte> part) { writer.write(part); });
  }
  writer.commit();
}

void write_weights(const fs::path& folder, std::vector<NamedTensors> shards) {
  if (shards.size() == 1) {
    write_shard(folder / "model.safetensors", shards.front());
    return;
  }
  nlohmann::ordered_json index;
  std::uint64_t total = 0;
  auto& places = index["weight_map"] = nlohmann::ordered_json::object();
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string file =
        fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
    write_shard(folder / file, shards[i]);
    for (const auto& [name, tensor] : shards[i]) {
      places[name] = file;
      total += tensor_bytes(tensor.shape, tensor.type).value_or(0);
    }
  }
  index["metadata"] = {{"total_size", total}};
  write_file_atomically(
      folder / "model.safetensors.index.json",
      index.dump(2) + "\n");
}

void copy_tokenizer(const fs::path& from, const fs::path& folder) {
  if (!fs::is_directory(from)) {
    throw ConfigError(
        {.what = "no such folder of a tokenizer", .where = from.string()});
  }
  for (const char* name : tokenizer_files) {
    if (fs::exists(from / name)) {
      write_file_atomically(
          folder / name,
          read_file(from / name, largest_tokenizer));
    }
  }
}

} // namespace

void write_huggingface(
    const fs::path& folder,
    const model::ModelDescription& d,
    const NamedTensors& tensors,
    const HuggingFaceOptions& options) {
  check(d, "the model to be written");
  NamedTensors body = tensors;
  const NamedTensors head = huggingface::take_classification(d, body);
  const NamedTensors ours = parameter_tensors(d, body);
  NamedTensors theirs;
  for (const auto& [name, tensor] : ours) {
    add_theirs(
        d,
        huggingface::name_pair(d, name),
        options.type ? as_type(tensor, *options.type) : tensor,
        theirs);
  }
  std::string config = huggingface_config(d, theirs.front().second.type);
  if (head.empty()) {
    for (auto& [name, tensor] : theirs) {
      name = file_name(d, std::move(name));
    }
  } else {
    config =
        huggingface::with_classifier(config, d, head.front().second.rows());
    for (const auto& [name, tensor] : head) {
      theirs.emplace_back(
          huggingface::classifier_name(name),
          options.type ? as_type(tensor, *options.type) : tensor);
    }
  }
  if (huggingface::has_weights(folder)) {
    throw ConfigError(
        {.what = "the folder holds a model already",
         .where = folder.string(),
         .remedy = "choose another, or empty it first"});
  }
  make_folder(folder);
  if (!options.tokenizer.empty()) {
    copy_tokenizer(options.tokenizer, folder);
  }
  write_file_atomically(folder / "config.json", config);
  write_weights(folder, shards_of(std::move(theirs), options.largest_file));
}

} // namespace cairn::checkpoints
