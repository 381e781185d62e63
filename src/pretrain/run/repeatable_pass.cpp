#include "pretrain/run/repeatable_pass.h"

#include <cairn/base/error.h>

#include <array>
#include <string>
#include <utility>

namespace cairn::pretrain {
namespace {

using models::ModelInput;

/// The tensors of an input, in the order of PassInputs::tensors.
constexpr std::array fields{
    &ModelInput::tokens,
    &ModelInput::positions,
    &ModelInput::token_types,
    &ModelInput::mask,
    &ModelInput::decoder_tokens,
    &ModelInput::decoder_mask,
    &ModelInput::labels,
    &ModelInput::loss_mask,
    &ModelInput::next_sentence,
    &ModelInput::samples};

PassInputs pass_inputs(const ModelInput& input) {
  // Numbers of labels that lead to the same work are one variant.
  PassInputs inputs{.variant = (input.most_labels + 63) / 64 * 64};
  for (const auto field : fields) {
    inputs.tensors.push_back(input.*field);
  }
  return inputs;
}

ModelInput model_input(const PassInputs& inputs) {
  ModelInput input;
  input.most_labels = inputs.variant;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    input.*fields[i] = inputs.tensors[i];
  }
  return input;
}

/// Why passes cannot be recorded; empty if they can.
std::string obstacle(
    const config::Config& config,
    int ranks,
    at::Device device) {
  const config::Flags& flags = config.flags;
  const config::DeepSpeedConfig& deepspeed = config.deepspeed;
  if (!device.is_cuda()) {
    return "it runs on the CPU";
  }
  if (ranks > 1) {
    return "several ranks exchange gradients within a pass";
  }
  if (flags.regularization.attention_dropout > 0) {
    return "attention draws what it drops anew in every pass; set "
           "--attention-dropout 0";
  }
  if (deepspeed.fp16.enabled || deepspeed.amp.enabled) {
    return "the loss scale changes; use --bf16";
  }
  if (static_cast<int>(deepspeed.zero.stage) == 3) {
    return "weights come and go at ZeRO stage 3; use stage 0, 1 or 2";
  }
  if (deepspeed.zero.offload_optimizer) {
    return "gradients leave the GPU within a pass";
  }
  if (flags.training.recomputes_layers() || flags.training.recomputes_parts()) {
    return "activations are recomputed";
  }
  if (!deepspeed.random_ltd.layers.empty()) {
    return "layers drop other tokens in every pass";
  }
  if (!flags.moe.num_experts.empty()) {
    return "the routing of tokens to experts is not recorded";
  }
  return {};
}

} // namespace

bool records_passes(
    const config::Config& config,
    int ranks,
    at::Device device) {
  const config::TrainingFlags& flags = config.flags.training;
  if (flags.cuda_graphs == config::CudaGraphs::none &&
      !flags.enable_cuda_graph) {
    return false;
  }
  if (std::string why = obstacle(config, ranks, device); !why.empty()) {
    throw ConfigError(
        {.what = "the passes of this training cannot be recorded as a CUDA "
                 "graph: " +
             why,
         .where = flags.enable_cuda_graph ? "--enable-cuda-graph"
                                          : "--cuda-graph-impl",
         .remedy = "change that, or leave the flag out"});
  }
  return true;
}

RepeatablePass repeatable_pass(
    Engine& engine,
    std::function<ModelInput()> next,
    std::int64_t warm_up) {
  return {
      .next = [next = std::move(next)] { return pass_inputs(next()); },
      .forward =
          [&engine](const PassInputs& inputs) {
            auto output =
                engine.forward<models::ModelOutput>(model_input(inputs));
            return BatchLoss(std::move(output.loss), std::move(output.losses));
          },
      .warm_up = warm_up};
}

} // namespace cairn::pretrain
