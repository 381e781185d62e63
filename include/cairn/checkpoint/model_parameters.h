#pragma once

#include <cairn/checkpoint/model_description.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

// The names that Cairn's models give their parameters, and what tensor
// parallelism does to them. Weights are [out, in].

namespace cairn::checkpoints {

enum class TensorCut {
  whole,     ///< the same on every rank
  rows,      ///< cut along the first dimension
  columns,   ///< cut along the second
  third,     ///< cut along the third: experts, stacked
  vocabulary ///< rows, of the padded vocabulary
};

struct ModelParameter {
  std::string name;
  std::vector<std::int64_t> shape; ///< with the vocabulary's true size
  TensorCut cut = TensorCut::whole;

  bool operator==(const ModelParameter&) const = default;
};

/// In the order of a forward pass.
///
/// The rows of `attention.query_key_value` are, for each key/value head, its
/// query heads, the key and the value: so that ranks of a tensor parallel group
/// have a stretch of rows each. Likewise the key and value of each head in
/// `cross_attention.key_value`.
std::vector<ModelParameter> model_parameters(
    const ModelDescription& description);

/// Names that stand for another parameter: {"head.weight",
/// "embedding.word.weight"} where the head is tied.
std::vector<std::pair<std::string, std::string>> model_ties(
    const ModelDescription& description);

} // namespace cairn::checkpoints
