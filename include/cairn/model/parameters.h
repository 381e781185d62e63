#pragma once

#include <cairn/model/description.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

// The layers of a model and every parameter in them. Weights are [out, in].

namespace cairn::model {

/// A piece of a model that a pipeline may cut off.
struct Layer {
  std::string name;  ///< prefix of its parameters' names: "layers.3"
  std::string type;  ///< for pipeline.partition: embedding, block, norm or head
  std::string tie{}; ///< layers with the same tie are one, on all their stages
  std::int64_t parameters = 0; ///< elements that one tensor parallel rank has
  std::int64_t experts = 0;    ///< … of them in all of its experts
  std::int64_t idle = 0; ///< … of them in experts that a token passes by
};

/// The layers of a model in the order of a forward pass: the word embedding,
/// the layer between it and the first block, the blocks of each stack between
/// relative positions and a norm, the heads. A tied head is the words' layer
/// once more.
///
/// Sizes are without the vocabulary's padding: use with_padding() for sizes in
/// memory. `tensor_ranks` share every layer.
std::vector<Layer> layers_of(
    const ModelDescription& description,
    std::int64_t tensor_ranks = 1);

/// Initial values of a parameter, before any training.
enum class InitialLaw {
  zero,
  one,
  normal,
  output_normal ///< for a layer that adds to the residual stream
};

/// Deviation of `output_normal`, Megatron's: by the depth of the stack, so that
/// the residual stream does not grow with it.
double output_deviation(double deviation, std::int64_t layers);

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
  std::string layer{}; ///< name of the Layer that has it

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
