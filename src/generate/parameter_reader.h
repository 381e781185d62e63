#pragma once

#include "generate/decoder_weights.h"
#include "generate/internal/model_part.h"

#include <ATen/core/Tensor.h>
#include <cairn/checkpoints/lazy_tensor.h>
#include <cairn/models/transformer.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace cairn::generate {

/// Reads rows of the parameter with a name; without a stretch, all rows. Throws
/// CheckpointError for a parameter that is not there.
using ReadRows = std::function<
    at::Tensor(const std::string& name, std::optional<Stretch> rows)>;

/// The parameters of a model in memory. What is read is the model's own memory.
ReadRows rows_of_model(const models::Transformer& model);
/// The tensors of a checkpoint, in memory of their own: a file may change.
ReadRows rows_of_checkpoint(
    const checkpoints::NamedTensors& tensors,
    at::ScalarType dtype);

/// Takes the parameters of a part of a model, and converts them. The model and
/// the part outlive the reader.
class ParameterReader {
 public:
  ParameterReader(
      ReadRows read,
      const models::ModelDescription& model,
      const ModelPart& part,
      std::optional<WeightType> numbers);

  at::Tensor words() const;
  at::Tensor positions() const; ///< undefined if there are none
  NormWeights norm(const std::string& name) const;
  /// Block `layer` of its stack, whose parameters' names begin with `prefix`,
  /// such as "layers.3.".
  BlockWeights block(const std::string& prefix, std::int64_t layer) const;
  CrossWeights cross_attention(const std::string& prefix) const;
  LinearWeights head(const at::Tensor& words) const;
  /// A whole parameter as fp32; undefined if it does not exist.
  at::Tensor wide(const std::string& name, bool exists) const;

 private:
  /// A norm of queries or keys; undefined if the model has none.
  NormWeights head_norm(const std::string& name) const;
  /// The MLP with the name "layers.3.mlp", for one.
  MlpWeights mlp(const std::string& name) const;
  MixtureWeights mixture(const std::string& name, std::int64_t experts) const;
  /// One of the experts whose weights are stacked under a name.
  MlpWeights expert(const std::string& name, std::int64_t number) const;
  /// A linear layer that every rank has whole, in fp32.
  LinearWeights wide_linear(const std::string& name, bool bias) const;
  at::Tensor joined(
      const std::string& name,
      const std::vector<Stretch>& stretches) const;
  /// A linear layer of which the rank has some outputs.
  LinearWeights rows(
      const std::string& name,
      const std::vector<Stretch>& stretches,
      bool bias) const;
  /// A linear layer of which the rank has some inputs.
  LinearWeights columns(
      const std::string& name,
      const Stretch& stretch,
      bool bias) const;
  LinearWeights converted(const at::Tensor& weight) const;

  ReadRows read_;
  const models::ModelDescription& model_;
  const ModelPart& part_;
  std::optional<WeightType> numbers_;
};

} // namespace cairn::generate
