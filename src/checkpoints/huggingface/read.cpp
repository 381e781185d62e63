#include "checkpoints/huggingface/classifier.h"
#include "checkpoints/huggingface/joined_products.h"
#include "checkpoints/huggingface/weight_files.h"
#include "checkpoints/internal/head_rows.h"
#include "checkpoints/internal/huggingface_names.h"
#include "checkpoints/tensors/lazy_operations.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>
#include <cairn/checkpoints/huggingface.h>
#include <cairn/model/parameters.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

namespace cairn::checkpoints {

namespace {

namespace fs = std::filesystem;
using huggingface::Change;
using huggingface::NamePair;
using huggingface::Weights;

constexpr std::uint64_t largest_config = std::uint64_t{1} << 24;
constexpr std::size_t most_listed = 20;

[[noreturn]] void refuse_names(
    const char* what,
    const fs::path& where,
    std::vector<std::string> names) {
  const std::size_t count = names.size();
  names.resize(std::min(count, most_listed));
  throw CheckpointError(
      {.what = what,
       .where = where.string(),
       .values = fmt::format(
           "{}{}",
           fmt::join(names, ", "),
           count > most_listed
               ? fmt::format(" and {} more", count - most_listed)
               : "")});
}

/// Finds out which heads there are: only the weights tell.
void find_heads(
    const std::map<std::string, LazyTensor>& weights,
    model::ModelDescription& d) {
  const auto has = [&](const char* parameter) {
    return weights.contains(
        huggingface::name_pair(d, parameter).theirs.front());
  };
  if (d.family == model::ModelFamily::bert ||
      d.family == model::ModelFamily::roberta) {
    d.pooler = has("pooler.weight");
    d.masked_head = has("mlm.bias");
    d.next_sentence_head =
        d.family == model::ModelFamily::bert && has("next_sentence.weight");
    d.tied_head = d.tied_head || !d.masked_head;
  }
}

void expect_shape(
    const std::string& name,
    const LazyTensor& tensor,
    const std::vector<std::int64_t>& shape,
    const fs::path& where) {
  if (tensor.shape != shape) {
    throw CheckpointError(
        {.what = fmt::format(
             "\"{}\" has another shape than config.json says",
             name),
         .where = where.string(),
         .values = fmt::format(
             "[{}], not [{}]",
             fmt::join(tensor.shape, ", "),
             fmt::join(shape, ", "))});
  }
}

/// Our tensor, made from theirs.
LazyTensor ours(
    const model::ModelDescription& d,
    const model::ModelParameter& parameter,
    const NamePair& pair,
    std::vector<LazyTensor> theirs,
    const fs::path& where) {
  std::vector<std::int64_t> turned = parameter.shape;
  std::ranges::reverse(turned);
  switch (pair.change) {
    case Change::none:
      expect_shape(pair.theirs[0], theirs[0], parameter.shape, where);
      return std::move(theirs[0]);
    case Change::transpose:
      expect_shape(pair.theirs[0], theirs[0], turned, where);
      return transposed(std::move(theirs[0]));
    case Change::reorder_columns:
      expect_shape(pair.theirs[0], theirs[0], turned, where);
      return heads_together(
          transposed(std::move(theirs[0])),
          query_key_value_rows(d),
          d.key_value_heads);
    case Change::join_heads: {
      const std::vector<std::int64_t> rows =
          theirs.size() == 3 ? query_key_value_rows(d) : key_value_rows(d);
      std::vector<std::int64_t> shape = parameter.shape;
      for (std::size_t i = 0; i < theirs.size(); ++i) {
        shape[0] = rows[i] * d.key_value_heads;
        expect_shape(pair.theirs[i], theirs[i], shape, where);
        if (theirs[i].type != theirs[0].type) {
          refuse_names("parts of different types", where, pair.theirs);
        }
      }
      return interleaved(std::move(theirs), d.key_value_heads);
    }
    case Change::stack_experts: {
      const std::vector<std::int64_t> one(
          parameter.shape.begin() + 1,
          parameter.shape.end());
      for (std::size_t i = 0; i < theirs.size(); ++i) {
        expect_shape(pair.theirs[i], theirs[i], one, where);
        if (theirs[i].type != theirs[0].type) {
          refuse_names("experts of different types", where, pair.theirs);
        }
      }
      return stacked(std::move(theirs));
    }
  }
  throw InternalError({.what = "an unknown change of names"});
}

/// Their tensors under the names of our rules. An unknown name is an error.
std::map<std::string, LazyTensor> known(
    const model::ModelDescription& d,
    Weights& weights) {
  std::map<std::string, LazyTensor> result;
  for (auto& [name, tensor] : weights.tensors) {
    const std::string ruled = huggingface::rule_name(d, name);
    if (!ruled.empty() && !result.emplace(ruled, std::move(tensor)).second) {
      refuse_names("a tensor is there twice", weights.file, {name});
    }
  }
  return result;
}

} // namespace

HuggingFaceModel read_huggingface(const fs::path& folder) {
  const fs::path config = folder / "config.json";
  if (!fs::exists(config)) {
    throw CheckpointError({.what = "no config.json", .where = folder.string()});
  }
  HuggingFaceModel model;
  model::ModelDescription& d = model.description;
  d = model_description_from_huggingface(
      read_file(config, largest_config),
      config.string());
  Weights weights = huggingface::open_weights(folder);
  if (d.family == model::ModelFamily::llama) {
    huggingface::split_joined_products(weights, d);
  }
  // transformers 5 calls every T5 tied. T5 v1.1 has a head of its own, which
  // shows by being saved.
  if (d.family == model::ModelFamily::t5 && d.tied_head && !d.scaled_output) {
    d.tied_head = !weights.tensors.contains("lm_head.weight");
  }
  std::map<std::string, LazyTensor> theirs = known(d, weights);
  find_heads(theirs, d);
  NamedTensors classifier =
      huggingface::take_classifier(d, theirs, weights.file);
  std::vector<std::string> missing;
  for (const model::ModelParameter& parameter : model::model_parameters(d)) {
    const NamePair pair = huggingface::name_pair(d, parameter.name);
    std::vector<LazyTensor> parts;
    for (const std::string& name : pair.theirs) {
      auto node = theirs.extract(name);
      if (node.empty()) {
        missing.push_back(name);
        continue;
      }
      parts.push_back(std::move(node.mapped()));
    }
    if (parts.size() == pair.theirs.size()) {
      model.tensors.emplace_back(
          parameter.name,
          ours(d, parameter, pair, std::move(parts), weights.file));
    }
  }
  if (!missing.empty()) {
    refuse_names("tensors are missing", weights.file, std::move(missing));
  }
  if (!theirs.empty()) {
    std::vector<std::string> unknown;
    for (const auto& [name, tensor] : theirs) {
      unknown.push_back(name);
    }
    refuse_names(
        "tensors that this model does not have",
        weights.file,
        std::move(unknown));
  }
  std::ranges::move(classifier, std::back_inserter(model.tensors));
  return model;
}

} // namespace cairn::checkpoints
