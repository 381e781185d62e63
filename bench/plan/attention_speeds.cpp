#include "plan/attention_speeds.h"

#include <ATen/core/grad_mode.h>
#include <cairn/nn/attention.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/variable.h>

using namespace cairn; // NOLINT

AttentionSeconds attention_seconds(
    const Timer& timer,
    Operands& operands,
    const AttentionSizes& sizes) {
  const auto matrix = [&] { return operands.next(sizes.tokens, sizes.width); };
  const auto heads = [&] {
    return matrix()
        .view(
            {-1,
             sizes.sequence,
             sizes.width / sizes.head_size,
             sizes.head_size})
        .detach()
        .requires_grad_();
  };
  const auto attended = [&](const std::vector<at::Tensor>& parts) {
    return nn::attend(parts[0], parts[1], parts[2], {.causal = sizes.causal});
  };
  const double forward = timer([&] { attended({heads(), heads(), heads()}); });
  const double both = timer([&] {
    const std::vector<at::Tensor> parts{heads(), heads(), heads()};
    const at::Tensor result = attended(parts);
    torch::autograd::grad({result}, parts, {matrix().view(result.sizes())});
  });
  return {.forward = forward, .backward = both - forward};
}

plan::AttentionSpeeds attention_speeds(
    const Timer& timer,
    Operands& operands,
    std::int64_t tokens,
    std::int64_t width,
    const std::vector<std::int64_t>& sequences,
    const std::vector<std::int64_t>& head_sizes) {
  const plan::SpeedGrid empty{
      .axes = {
          std::vector<double>(sequences.begin(), sequences.end()),
          std::vector<double>(head_sizes.begin(), head_sizes.end())}};
  plan::AttentionSpeeds found{empty, empty, empty, empty};
  for (const std::int64_t sequence : sequences) {
    for (const std::int64_t size : head_sizes) {
      for (const bool causal : {false, true}) {
        const AttentionSeconds took = attention_seconds(
            timer,
            operands,
            {.tokens = tokens,
             .sequence = sequence,
             .width = width,
             .head_size = size,
             .causal = causal});
        const double operations = (causal ? 2 : 4) *
            static_cast<double>(tokens) * static_cast<double>(sequence) *
            static_cast<double>(width);
        (causal ? found.causal_forward : found.forward)
            .speeds.push_back(operations / took.forward);
        (causal ? found.causal_backward : found.backward)
            .speeds.push_back(2.5 * operations / took.backward);
      }
    }
  }
  return found;
}
