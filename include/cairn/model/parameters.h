#pragma once

#include <cairn/model/description.h>
#include <cairn/model/initial_law.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

// Every parameter of a model. Weights are [out, in].

namespace cairn::model {

/// The cut of a parameter by tensor parallelism.
enum class TensorCut {
  whole,     ///< the same on every rank
  rows,      ///< cut along the first dimension
  columns,   ///< cut along the second dimension
  third,     ///< cut along the third dimension: stacked experts
  vocabulary ///< cut along the rows of the padded vocabulary
};

struct ModelParameter {
  std::string name;
  std::vector<std::int64_t> shape; ///< with the vocabulary's true size
  TensorCut cut = TensorCut::whole;
  InitialLaw initial = InitialLaw::normal;
  std::string layer{}; ///< name of the layer that has it; see layers.h

  std::int64_t elements() const;
  bool operator==(const ModelParameter&) const = default;
};

/// Parameters in the order of a forward pass.
///
/// The rows of `attention.query_key_value` are, for each key/value head, its
/// query heads, the key and the value. Each rank of a tensor parallel group
/// therefore has one stretch of rows. `cross_attention.key_value` has the key
/// and value of each head in the same way.
std::vector<ModelParameter> model_parameters(
    const ModelDescription& description);

/// Names that stand for another parameter: {"head.weight",
/// "embedding.word.weight"} where the head is tied.
std::vector<std::pair<std::string, std::string>> model_ties(
    const ModelDescription& description);

/// Numbers of elements, tied parameters once, without the vocabulary's padding.
struct ParameterCount {
  std::int64_t all = 0;
  /// Parameters active for one token: of a layer's experts, only those the
  /// token is routed to.
  std::int64_t active = 0;
};
ParameterCount count_parameters(const ModelDescription& description);

/// Elements of a parameter that no token reaches at a time: experts beyond
/// those that a token is routed to.
std::int64_t idle_elements(
    const ModelDescription& description,
    const ModelParameter& parameter);
/// True for the stacked weights and biases of a layer's experts.
bool is_expert(const ModelParameter& parameter);

} // namespace cairn::model
