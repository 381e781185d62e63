#include "plan/rates.h"

#include "model/internal/flops.h"

#include <cairn/model/parameters.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace cairn::plan {
namespace {

/// Floating point operations of a sample.
struct Operations {
  double all = 0;    ///< of both passes
  double blocks = 0; ///< of the blocks' forward pass
};

Operations operations_of_sample(const Training& training) {
  const model::ModelDescription& d = training.model;
  const auto sequence = static_cast<double>(training.sequence);
  if (training.decoder_sequence > 0) {
    const double all =
        model::megatron_flops(d, training.sequence, training.decoder_sequence);
    const double head = 2 * static_cast<double>(training.decoder_sequence) *
        static_cast<double>(d.hidden) *
        static_cast<double>(d.padded_vocabulary);
    return {.all = all, .blocks = all / 3 - head};
  }
  // Operations of a token's forward pass, without regard to masks.
  const auto hidden = static_cast<double>(d.hidden);
  const auto width = static_cast<double>(d.heads * d.head_size);
  const auto key_value =
      static_cast<double>(2 * d.key_value_heads * d.head_size);
  double blocks = 0;
  for (std::int64_t layer = 0; layer < d.layers; ++layer) {
    const bool experts = model::experts_in_layer(d, layer) > 0;
    const double mlps = experts
        ? static_cast<double>(d.experts->top_k) + (d.experts->residual ? 1 : 0)
        : 1;
    blocks += 2 * hidden * (2 * width + key_value) +
        mlps * 2 * hidden * static_cast<double>(d.ffn) * (d.gated ? 3 : 2) +
        4 * sequence * width;
  }
  const double head = 2 * hidden * static_cast<double>(d.padded_vocabulary);
  return {.all = sequence * 3 * (blocks + head), .blocks = sequence * blocks};
}

/// Returns the name of what takes the most time; "memory" if that is too small.
std::string limit_of(const Estimate& result) {
  if (!result.fits) {
    return "memory";
  }
  const TimeParts& t = result.time;
  const std::vector<std::pair<std::string, double>> groups{
      {"arithmetic", t.products + t.attention + t.recompute},
      {"memory traffic", t.elementwise + t.optimizer},
      {"launching kernels", t.host},
      {"tensor parallel messages", t.tensor},
      {"expert messages", t.experts},
      {"pipeline bubble", t.bubble},
      {"a straggler", t.straggler},
      {"gathering parameters", t.gathers},
      {"reducing gradients", t.gradients},
      {"offloading", t.offload}};
  return std::ranges::max_element(
             groups,
             {},
             &std::pair<std::string, double>::second)
      ->first;
}

} // namespace

void set_rates(const PlannedRun& run, Estimate& result) {
  const auto samples = static_cast<double>(run.layout.global_batch);
  const double seconds =
      result.iteration_seconds * static_cast<double>(run.layout.gpus);
  result.tokens_per_second_per_gpu =
      samples * static_cast<double>(run.training.tokens()) / seconds;
  const auto [model, blocks] = operations_of_sample(run.training);
  const auto layers = static_cast<double>(run.training.model.layers);
  const auto part =
      static_cast<double>(run.layout.recomputed_blocks * run.layout.pipeline);
  const double again = run.layout.recompute != Recompute::blocks ? 0
      : part == 0                                                ? blocks
                  : blocks * std::min(1.0, part / layers);
  result.model_tflops_per_gpu = model * samples / seconds / 1e12;
  result.hardware_tflops_per_gpu = (model + again) * samples / seconds / 1e12;
  result.mfu = result.model_tflops_per_gpu * 1e12 /
      peak_flops(run.training, run.cluster.gpu);
  result.parameters =
      static_cast<double>(model::count_parameters(run.training.model).all);
  result.limited_by = limit_of(result);
}

} // namespace cairn::plan
