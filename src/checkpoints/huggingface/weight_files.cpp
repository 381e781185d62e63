#include "checkpoints/huggingface/weight_files.h"

#include "checkpoints/tensors/in_file.h"
#include "checkpoints/tensors/named_tensors.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>
#include <cairn/checkpoints/safetensors.h>
#include <cairn/checkpoints/torch_file.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <memory>
#include <set>
#include <utility>

namespace cairn::checkpoints::huggingface {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Tensors = std::map<std::string, LazyTensor>;

constexpr std::uint64_t largest_index = std::uint64_t{1} << 28;

constexpr std::array<std::string_view, 2> stems{
    "model.safetensors",
    "pytorch_model.bin"};

void add(Tensors& tensors, const std::string& name, LazyTensor tensor) {
  if (!tensors.emplace(name, std::move(tensor)).second) {
    throw CheckpointError({.what = "a tensor is there twice", .values = name});
  }
}

void add_safetensors(const fs::path& path, Tensors& tensors) {
  const auto file = std::make_shared<const SafetensorsFile>(path);
  for (const auto& [name, entry] : file->entries()) {
    add(tensors, name, lazy_tensor(file, name));
  }
}

void add_torch(const fs::path& path, Tensors& tensors) {
  for (const auto& [name, value] : read_torch_file(path).entries()) {
    if (!value.is(PythonValue::Kind::tensor)) {
      throw CheckpointError(
          {.what = "a dict of tensors is wanted, as a state_dict is",
           .where = path.string(),
           .values = name.describe(0)});
    }
    add(tensors, name.text(), lazy_tensor(value));
  }
}

void add_file(const fs::path& path, Tensors& tensors) {
  if (!fs::is_regular_file(path)) {
    throw CheckpointError(
        {.what = "a file of the model is missing", .where = path.string()});
  }
  if (path.extension() == ".safetensors") {
    add_safetensors(path, tensors);
  } else {
    in_file(path, [&] { add_torch(path, tensors); });
  }
}

void add_shards(const fs::path& index, Tensors& tensors) {
  std::map<std::string, std::string> places;
  try {
    places = json::parse(read_file(index, largest_index))
                 .at("weight_map")
                 .get<std::map<std::string, std::string>>();
  } catch (const json::exception& error) {
    throw CheckpointError(
        {.what = "not an index of weights",
         .where = index.string(),
         .values = error.what()});
  }
  std::set<std::string> files;
  for (const auto& [name, file] : places) {
    if (file.empty() || fs::path(file).filename() != file || file == "..") {
      throw CheckpointError(
          {.what = "not the name of a file beside the index",
           .where = index.string(),
           .values = file});
    }
    files.insert(file);
  }
  for (const std::string& file : files) {
    add_file(index.parent_path() / file, tensors);
  }
  for (const auto& [name, file] : places) {
    if (!tensors.contains(name)) {
      throw CheckpointError(
          {.what = fmt::format("\"{}\" is missing", name),
           .where = (index.parent_path() / file).string()});
    }
  }
}

} // namespace

Weights open_weights(const fs::path& folder) {
  for (const std::string_view stem : stems) {
    Weights weights{folder / stem, {}};
    if (fs::exists(weights.file)) {
      add_file(weights.file, weights.tensors);
      return weights;
    }
    weights.file += ".index.json";
    if (fs::exists(weights.file)) {
      add_shards(weights.file, weights.tensors);
      return weights;
    }
  }
  throw CheckpointError(
      {.what = "no model.safetensors or pytorch_model.bin, and no index of "
               "their parts",
       .where = folder.string()});
}

bool has_weights(const fs::path& folder) {
  return std::ranges::any_of(stems, [&](std::string_view stem) {
    const fs::path file = folder / stem;
    return fs::exists(file) || fs::exists(file.string() + ".index.json");
  });
}

} // namespace cairn::checkpoints::huggingface
