#include "pretrain/run/named_norms.h"

#include "checkpoints/internal/head_rows.h"
#include "checkpoints/internal/huggingface_names.h"
#include "zero/internal/sum_of_squares.h"
#include "zero/internal/sum_over.h"

#include <ATen/ops/tensor.h>
#include <cairn/base/error.h>
#include <cairn/model/parameters.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace cairn::pretrain {

namespace {

namespace huggingface = checkpoints::huggingface;

/// Hugging Face's names; empty if its model lacks one of the parameters.
std::vector<huggingface::NamePair> their_names(
    const model::ModelDescription& description) {
  std::vector<huggingface::NamePair> pairs;
  try {
    for (const auto& parameter : model::model_parameters(description)) {
      pairs.push_back(huggingface::name_pair(description, parameter.name));
    }
  } catch (const CheckpointError&) {
    return {};
  }
  return pairs;
}

} // namespace

NamedNorms::NamedNorms(const model::ModelDescription& description) {
  std::vector<huggingface::NamePair> pairs = their_names(description);
  theirs_ = !pairs.empty();
  if (!theirs_) {
    for (const auto& parameter : model::model_parameters(description)) {
      pairs.push_back(
          {parameter.name, huggingface::Change::none, {parameter.name}});
    }
  }
  for (huggingface::NamePair& pair : pairs) {
    Parts parts{.first = names_.size()};
    if (pair.change == huggingface::Change::join_heads) {
      parts.rows = pair.theirs.size() == 3
          ? checkpoints::query_key_value_rows(description)
          : checkpoints::key_value_rows(description);
      names_.insert(names_.end(), pair.theirs.begin(), pair.theirs.end());
    } else if (pair.change == huggingface::Change::stack_experts) {
      parts.rows.assign(pair.theirs.size(), 1); // a row of ours is an expert
      names_.insert(names_.end(), pair.theirs.begin(), pair.theirs.end());
    } else {
      names_.push_back(pair.theirs.front());
    }
    parts_.emplace(pair.ours, std::move(parts));
  }
  squares_.assign(names_.size(), 0);
}

void NamedNorms::add(const checkpoints::TensorSlice& slice) {
  const Parts& parts = parts_.at(slice.name);
  if (parts.rows.empty()) {
    squares_[parts.first] += zero::sum_of_squares(slice.values);
  } else {
    add_parts(parts, slice);
  }
}

/// Adds a slice, from one change of names to the next.
void NamedNorms::add_parts(
    const Parts& parts,
    const checkpoints::TensorSlice& slice) {
  const std::vector<std::int64_t>& sizes =
      slice.box.empty() ? slice.shape : slice.box.size;
  const std::int64_t columns = std::accumulate(
      sizes.begin() + 1,
      sizes.end(),
      std::int64_t{1},
      std::multiplies<>());
  const std::int64_t first_row = slice.box.empty() ? 0 : slice.box.begin[0];
  const std::int64_t turn =
      std::accumulate(parts.rows.begin(), parts.rows.end(), std::int64_t{0});
  for (std::int64_t at = slice.begin; at < slice.end();) {
    std::int64_t left = (first_row + at / columns) % turn; // rows in this turn
    std::size_t part = 0;
    while (left >= parts.rows[part]) {
      left -= parts.rows[part++];
    }
    const std::int64_t end = std::min(
        slice.end(),
        (at / columns + parts.rows[part] - left) * columns);
    squares_[parts.first + part] += zero::sum_of_squares(
        slice.values.narrow(0, at - slice.begin, end - at));
    at = end;
  }
}

std::vector<double> NamedNorms::take(const distributed::ProcessGroup& world) {
  const at::Tensor sums =
      zero::sum_over(world, at::tensor(squares_, at::kDouble));
  std::vector<double> norms(squares_.size());
  for (std::size_t i = 0; i < norms.size(); ++i) {
    norms[i] = std::sqrt(sums.const_data_ptr<double>()[i]);
  }
  squares_.assign(squares_.size(), 0);
  return norms;
}

} // namespace cairn::pretrain
