#include "pretrain/run/repeatable_pass.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

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

/// Why the experts' part of a pass cannot be recorded; empty if it can.
std::string obstacle_of_experts(const config::Config& config) {
  const config::MoeFlags& moe = config.flags.moe;
  if (moe.num_experts.empty()) {
    return {};
  }
  if (moe.token_dropping) {
    return "experts drop tokens; add --disable-moe-token-dropping";
  }
  if (config.flags.distributed.expert_parallel > 1) {
    return "the host reads how many tokens go to the experts of other ranks; "
           "leave --expert-model-parallel-size out";
  }
  if (!config.deepspeed.bf16.enabled) {
    return "the host reads how many tokens go to each expert; use --bf16";
  }
  if (moe.topk == 2 && moe.second_expert_sampling) {
    return "the second expert is drawn anew in every pass; add "
           "--disable-moe-top2-2nd-expert-sampling";
  }
  if (moe.noise != model::RouterNoise::none) {
    return "the router's noise is drawn anew in every pass; leave "
           "--moe-noisy-gate-policy out";
  }
  return {};
}

/// Why ranks stand against recorded passes; empty if they do not.
std::string obstacle_of_ranks(
    const config::DistributedFlags& flags,
    std::string_view backend) {
  if (backend != "nccl" && backend != "local") {
    return fmt::format("ranks talk through the host ({}); use NCCL", backend);
  }
  if (flags.pipeline_parallel > 1) {
    return "the host decides when stages of a pipeline run; leave "
           "--pipeline-model-parallel-size out";
  }
  if (flags.context_parallel > 1) {
    return "context parallel ranks are not recorded; leave "
           "--context-parallel-size out";
  }
  if (flags.overlap_param_gather) {
    return "weights arrive while a pass runs; leave --overlap-param-gather out";
  }
  return {};
}

/// Why passes cannot be recorded; empty if they can.
std::string obstacle(
    const config::Config& config,
    std::string_view backend,
    at::Device device) {
  const config::Flags& flags = config.flags;
  const config::DeepSpeedConfig& deepspeed = config.deepspeed;
  if (!device.is_cuda()) {
    return "it runs on the CPU";
  }
  if (std::string why = obstacle_of_ranks(flags.distributed, backend);
      !why.empty()) {
    return why;
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
  if (deepspeed.logging.wall_clock_breakdown) {
    return "timers wait for the GPU; turn wall_clock_breakdown off";
  }
  return obstacle_of_experts(config);
}

} // namespace

bool records_passes(
    const config::Config& config,
    std::string_view backend,
    at::Device device) {
  const config::TrainingFlags& flags = config.flags.training;
  if (flags.cuda_graphs == config::CudaGraphs::none &&
      !flags.enable_cuda_graph) {
    return false;
  }
  if (std::string why = obstacle(config, backend, device); !why.empty()) {
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
