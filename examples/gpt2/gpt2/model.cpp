#include "gpt2/model.h"

namespace gpt2 {

std::shared_ptr<cairn::models::Transformer> get_model(
    const cairn::models::ModelDescription& description,
    const cairn::config::Config& args,
    const cairn::distributed::ProcessMesh& mpu,
    at::Device device) {
  const auto& group = mpu.along(cairn::distributed::Axis::tensor);
  cairn::models::ModelOptions options{
      .tensor_group = group,
      .device = device,
      .seed = static_cast<std::uint64_t>(args.flags.training.seed),
      .dropout_seed = static_cast<std::uint64_t>(args.flags.training.seed)};
  if (args.flags.training.checkpoint_activations) {
    options.recompute = cairn::nn::CheckpointOptions::from(
        args.deepspeed.activation_checkpointing,
        group);
  }
  return cairn::models::make_model(description, options);
}

} // namespace gpt2
