#include "pretrain/minimal_sampler.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>
#include <torch/csrc/autograd/grad_mode.h>

#include <algorithm>

namespace cairn::pretrain {

std::vector<std::int64_t> sample_tokens(
    models::Transformer& model,
    std::vector<std::int64_t> tokens,
    const SampleOptions& options) {
  const torch::autograd::AutoGradMode no_grad(false);
  model.eval();
  at::Generator generator =
      at::make_generator<at::CPUGeneratorImpl>(options.seed);
  const auto longest = static_cast<std::size_t>(model.description().positions);
  for (std::int64_t i = 0; i < options.most_tokens; ++i) {
    const std::size_t seen = std::min(tokens.size(), longest);
    const at::Tensor context = at::tensor(at::ArrayRef<std::int64_t>(
        tokens.data() + (tokens.size() - seen),
        seen));
    const at::Tensor logits =
        model.forward({.tokens = context.unsqueeze(0), .want_logits = true})
            .logits[0][-1]
            .to(at::kFloat);
    const at::Tensor next = at::multinomial(
        at::softmax(logits / options.temperature, 0),
        1,
        false,
        generator);
    tokens.push_back(next.item<std::int64_t>());
    if (tokens.back() == options.end) {
      break;
    }
  }
  return tokens;
}

} // namespace cairn::pretrain
