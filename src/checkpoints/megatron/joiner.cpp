#include "checkpoints/megatron/joiner.h"

#include "checkpoints/internal/head_rows.h"
#include "checkpoints/tensors/lazy_operations.h"

#include <cairn/base/error.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace cairn::checkpoints::megatron {

namespace {

/// The path with dots, as tensors of a file are named.
std::string dotted(std::string_view path) {
  std::string name(path);
  std::ranges::replace(name, '/', '.');
  return name;
}

std::string text_of(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

/// Joins only the rows of the vocabulary itself.
LazyTensor without_padding(
    std::vector<LazyTensor> pieces,
    const model::ModelParameter& parameter,
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

} // namespace

Joiner::Joiner(
    Contents contents,
    const model::ModelDescription& description,
    MegatronHeads heads,
    double version)
    : ranks_(std::move(contents.ranks)),
      names_(contents.names),
      head_blocks_(contents.head_blocks),
      d_(description),
      queries_keys_values_(
          heads == MegatronHeads::queries_keys_values ||
          (heads == MegatronHeads::by_version && version == 0)),
      turns_(heads == MegatronHeads::by_version && version == 1) {
  const auto size = static_cast<std::int64_t>(ranks_.size());
  // Ranks may share a head: its rows are cut like those of any weight.
  const bool shared = size % d_.key_value_heads == 0;
  if (d_.key_value_heads % size != 0 && !shared) {
    throw CheckpointError(
        {.what = "the key/value heads do not divide over the tensor ranks",
         .values = fmt::format("{} over {}", d_.key_value_heads, size)});
  }
  const std::int64_t parts = size * head_blocks_;
  if (queries_keys_values_ && (parts < 1 || d_.key_value_heads % parts != 0)) {
    throw CheckpointError(
        {.what = "files of this kind have whole key/value heads on each rank",
         .values =
             fmt::format("{} heads on {} ranks", d_.key_value_heads, parts)});
  }
  if (d_.key_value_heads != d_.heads && turns_) {
    throw CheckpointError(
        {.what = "files of version 1 have as many key/value heads as heads",
         .values = fmt::format("{} and {}", d_.key_value_heads, d_.heads)});
  }
}

LazyTensor Joiner::join(const model::ModelParameter& parameter) {
  const auto name = megatron_name(d_, parameter.name, names_);
  if (!name) {
    throw CheckpointError(
        {.what = "no model of Megatron's has such a parameter",
         .values = parameter.name});
  }
  const std::string theirs = dotted(name->path);
  std::vector<LazyTensor> pieces;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    pieces.push_back(piece(parameter, theirs, name->half, rank));
  }
  switch (parameter.cut) {
    case model::TensorCut::whole:
      return std::move(pieces.front());
    case model::TensorCut::rows:
      return joined(std::move(pieces), 0);
    case model::TensorCut::columns:
      return joined(std::move(pieces), 1);
    case model::TensorCut::third:
      return joined(std::move(pieces), 2);
    case model::TensorCut::vocabulary:
      return without_padding(std::move(pieces), parameter, theirs);
  }
  throw InternalError({.what = "an unknown cut"});
}

void Joiner::finish() {
  if (d_.tied_head) {
    used_.emplace(dotted(tied_head_path(names_)));
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

LazyTensor Joiner::piece(
    const model::ModelParameter& parameter,
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
  const std::size_t dim = is_expert(parameter) ? 1 : 0; // of both halves
  if (half != Half::none) {
    shape[dim] *= 2;
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
    const std::int64_t rows = shape[dim] / 2;
    const std::int64_t begin = half == Half::first ? 0 : rows;
    return sliced(tensor, static_cast<std::int64_t>(dim), begin, begin + rows);
  }
  return in_our_order(parameter, tensor);
}

const LazyTensor& Joiner::first(const std::string& name) const {
  return ranks_.front().tensors.find(name)->second.tensor;
}

std::vector<std::int64_t> Joiner::shape_of_piece(
    const model::ModelParameter& parameter) const {
  std::vector<std::int64_t> shape = parameter.shape;
  const auto ranks = static_cast<std::int64_t>(ranks_.size());
  switch (parameter.cut) {
    case model::TensorCut::whole:
      break;
    case model::TensorCut::rows:
      shape[0] /= ranks;
      break;
    case model::TensorCut::columns:
      shape[1] /= ranks;
      break;
    case model::TensorCut::third:
      shape[2] /= ranks;
      break;
    case model::TensorCut::vocabulary:
      shape[0] = d_.padded_vocabulary / ranks;
      break;
  }
  return shape;
}

LazyTensor Joiner::in_our_order(
    const model::ModelParameter& parameter,
    LazyTensor tensor) const {
  const std::string& name = parameter.name;
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
  if (!queries_keys_values_) {
    return tensor;
  }
  const std::int64_t each = tensor.shape[0] / head_blocks_;
  const std::int64_t groups = d_.key_value_heads /
      (static_cast<std::int64_t>(ranks_.size()) * head_blocks_);
  std::vector<LazyTensor> blocks;
  for (std::int64_t block = 0; block < head_blocks_; ++block) {
    blocks.push_back(heads_together(
        sliced(tensor, 0, block * each, (block + 1) * each),
        rows,
        groups));
  }
  return joined(std::move(blocks), 0);
}

} // namespace cairn::checkpoints::megatron
