#pragma once

#include <cairn/config/config.h>
#include <cairn/data/gpt_datasets.h>
#include <cairn/distributed/process_mesh.h>
#include <cairn/models/transformer.h>

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace gpt2 {

/// The data of --data-path, cut into samples as Megatron cuts them.
class WebText {
 public:
  WebText(
      const cairn::config::Config& args,
      const cairn::distributed::ProcessMesh& mpu,
      at::Device device);

  /// The GPT-2 of the flags, for this text's vocabulary.
  const cairn::models::ModelDescription& model() const { return model_; }
  /// The batch of this rank and of its neighbours that share the model.
  cairn::models::ModelInput batch(std::int64_t iteration) const;

 private:
  cairn::config::BatchConfig batch_;
  cairn::distributed::ProcessMesh mpu_;
  at::Device device_;
  cairn::models::ModelDescription model_;
  cairn::data::GptDatasets samples_;
};

} // namespace gpt2
